//! A logistic regression over a table of an id and ten floats.

use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::Float64Type;
use sandmill_guest::arrow_array::{ArrayRef, Float64Array, RecordBatch};
use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::sync::Arc;

#[path = "../../../kernels/logistic.rs"]
mod kernel;

struct Logistic;

impl EntryScript for Logistic {
    type Input = Table;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Logistic)
    }

    fn run(&mut self, table: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        let mut columns = Vec::with_capacity(kernel::WEIGHTS.len());
        for column in table.columns().iter().skip(1) {
            let floats = column.as_primitive_opt::<Float64Type>();
            columns.push(&**floats.context("a column holds no floats")?.values());
        }
        let mut probabilities = Vec::new();
        kernel::logistic(columns.into_iter(), table.num_rows(), &mut probabilities);
        let ids = table.column_by_name("id").context("the table has no column id")?;
        let probabilities: ArrayRef = Arc::new(Float64Array::from(probabilities));
        Ok(Results::columns([("id", Arc::clone(ids)), ("probability", probabilities)])?)
    }
}

sandmill_guest::export!(Logistic);
