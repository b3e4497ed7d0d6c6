//! A Sandmill entry script: adds a model's predictions to a table of people.

use sandmill_guest::arrow_array::RecordBatch;
use sandmill_guest::nn::{Model, Tensor};
use sandmill_guest::{
    Columns, Context, EntryScript, Job, MiniBatchContext, Result, Results, Table,
};

/// The columns that the model takes, in the model's order.
const FEATURES: [&str; 2] = ["height", "weight"];

struct Script {
    model: Model,
}

impl EntryScript for Script {
    type Input = Table;

    // Called once per worker. The job file names the model's file.
    fn init(_job: &Job) -> Result<Self> {
        Ok(Script { model: Model::load("model")? })
    }

    // Called once per mini-batch. Calls the model once for all rows.
    fn run(&mut self, people: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        let features = people.f32_matrix(&FEATURES)?;
        let features = Tensor::new([people.num_rows(), FEATURES.len()], features)?;
        let input = self.model.inputs().first().context("the model has no input")?;
        let outputs = self.model.run(&[(&input.name, features)])?;
        // Take the first number of each row. For the labels of a classifier, write `i64` instead of `f32`.
        let rows = outputs.at(0)?.rows::<f32>()?;
        let predicted: Vec<f32> = rows.filter_map(|row| row.first().copied()).collect();
        Results::with_columns(&people, [("predicted", predicted)])
    }
}

sandmill_guest::export!(Script);

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::IntoColumn;
    use sandmill_guest::nn::Description;
    use sandmill_guest::test::TestHost;

    // A function replaces the model.
    #[test]
    fn adds_the_models_numbers() {
        let model = Description::new("model").input::<f32>("x", &["?", "2"]);
        let host = TestHost::new().model(model, |inputs| {
            let sums: Vec<f32> =
                inputs.get("x")?.rows::<f32>()?.map(|row| row[0] + row[1]).collect();
            Ok(vec![("y", Tensor::new([sums.len(), 1], sums)?)])
        });
        let height = vec![2.0, 1.0].into_column();
        let weight = vec![80_i64, 20].into_column();
        let people = RecordBatch::try_from_iter([("height", height), ("weight", weight)]).unwrap();
        let mut script = host.init::<Script>().unwrap();
        let Results::Table(table) = script.run_table(people).unwrap() else { panic!() };
        assert_eq!(table.f64("predicted").unwrap(), [82.0, 21.0]);
    }
}
