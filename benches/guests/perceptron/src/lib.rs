//! A perceptron over a table of an id and ten floats.

use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::Float64Type;
use sandmill_guest::arrow_array::{ArrayRef, Float64Array, RecordBatch};
use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::sync::Arc;

#[path = "../../../kernels/perceptron.rs"]
mod kernel;

struct Perceptron;

impl EntryScript for Perceptron {
    type Input = Table;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Perceptron)
    }

    fn run(&mut self, table: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        let mut columns = Vec::with_capacity(table.num_columns());
        for column in table.columns().iter().skip(1) {
            let floats = column.as_primitive_opt::<Float64Type>();
            columns.push(&**floats.context("a column holds no floats")?.values());
        }
        let mut numbers = Vec::new();
        kernel::perceptron(&columns, table.num_rows(), &mut numbers);
        let ids = table.column_by_name("id").context("the table has no column id")?;
        let numbers: ArrayRef = Arc::new(Float64Array::from(numbers));
        Ok(Results::columns([("id", Arc::clone(ids)), ("number", numbers)])?)
    }
}

sandmill_guest::export!(Perceptron);
