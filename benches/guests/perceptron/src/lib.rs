//! A perceptron over a table of an id and ten floats. The guest computes the perceptron. With `--nn`, the
//! host computes it, as the job's model `perceptron`.

use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::Float64Type;
use sandmill_guest::arrow_array::{ArrayRef, Float64Array, RecordBatch};
use sandmill_guest::nn::{Model, Tensor};
use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::sync::Arc;

#[path = "../../../kernels/perceptron.rs"]
mod kernel;

struct Perceptron {
    /// `None` if the guest computes the perceptron.
    model: Option<Model>,
}

impl EntryScript for Perceptron {
    type Input = Table;

    fn init(job: &Job) -> Result<Self> {
        let model = job.flag("--nn").then(|| Model::load("perceptron")).transpose()?;
        Ok(Perceptron { model })
    }

    fn run(&mut self, table: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        let mut columns = Vec::with_capacity(table.num_columns());
        for column in table.columns().iter().skip(1) {
            let floats = column.as_primitive_opt::<Float64Type>();
            columns.push(&**floats.context("a column holds no floats")?.values());
        }
        let rows = table.num_rows();
        let mut numbers = Vec::new();
        match &self.model {
            Some(model) => numbers = by_model(model, &columns, rows)?,
            None => kernel::perceptron(&columns, rows, &mut numbers),
        }
        let ids = table.column_by_name("id").context("the table has no column id")?;
        let numbers: ArrayRef = Arc::new(Float64Array::from(numbers));
        Ok(Results::columns([("id", Arc::clone(ids)), ("number", numbers)])?)
    }
}

fn by_model(model: &Model, columns: &[&[f64]], rows: usize) -> Result<Vec<f64>> {
    let mut values = vec![0.0_f32; rows * columns.len()];
    for (index, column) in columns.iter().enumerate() {
        for (value, float) in values[index..].iter_mut().step_by(columns.len()).zip(*column) {
            *value = *float as f32;
        }
    }
    let rows = Tensor::new([rows, columns.len()], values)?;
    let numbers = model.run(&[("x", rows)])?.take("y")?.into_values::<f32>()?;
    Ok(numbers.into_iter().map(f64::from).collect())
}

sandmill_guest::export!(Perceptron);
