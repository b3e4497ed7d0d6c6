//! Classifies three species of iris: returns a table with `id`, `species` and `probability` for each flower.
//!
//! `--model FILE` names a file with the coefficients. The file is in a side input.

mod model;

use model::IrisModel;
use sandmill_guest::arrow_array::cast::AsArray;
use sandmill_guest::arrow_array::types::Float64Type;
use sandmill_guest::arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray};
use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::sync::Arc;

struct Iris {
    model: IrisModel,
}

impl EntryScript for Iris {
    type Input = Table;

    fn init(job: &Job) -> Result<Self> {
        let path = job.argument("--model").context("--model FILE is missing")?;
        Ok(Iris { model: IrisModel::load(path)? })
    }

    fn run(&mut self, flowers: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        let id = flowers.column_by_name("id").context("the table has no column `id`")?;
        let features: Result<Vec<&[f64]>> =
            self.model.features.iter().map(|name| floats(&flowers, name)).collect();
        let predictions = self.model.predict(&features?, flowers.num_rows());

        let species: StringArray =
            predictions.iter().map(|&(class, _)| Some(&self.model.classes[class])).collect();
        let probability: Float64Array =
            predictions.iter().map(|&(_, p)| Some((p * 1e6).round() / 1e6)).collect();
        Ok(Results::columns([
            ("id", id.clone()),
            ("species", Arc::new(species) as ArrayRef),
            ("probability", Arc::new(probability)),
        ])?)
    }
}

sandmill_guest::export!(Iris);

/// Returns the values of a column of floats. Fails if the column has other values or nulls.
fn floats<'a>(table: &'a RecordBatch, name: &str) -> Result<&'a [f64]> {
    let column =
        table.column_by_name(name).with_context(|| format!("the table has no column `{name}`"))?;
    let floats = column
        .as_primitive_opt::<Float64Type>()
        .with_context(|| format!("column `{name}` is {}, not floats", column.data_type()))?;
    if floats.null_count() > 0 {
        return Err(format!("column `{name}` has {} nulls", floats.null_count()).into());
    }
    Ok(floats.values())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::arrow_array::Int64Array;
    use sandmill_guest::arrow_array::types::Int64Type;
    use sandmill_guest::test::{TestHost, TestScript};

    fn script() -> TestScript<Iris> {
        TestHost::new().arguments(["--model", "data/model/logistic.json"]).init().unwrap()
    }

    /// All rows of `data/iris.csv`.
    fn flowers() -> RecordBatch {
        let mut lines = include_str!("../data/iris.csv").lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        let column = |index: usize| rows.iter().map(move |row| row[index]);
        let ids: Int64Array = column(0).map(|id| id.parse::<i64>().ok()).collect();
        let mut columns = vec![(names[0], Arc::new(ids) as ArrayRef)];
        for (index, name) in names.iter().enumerate().skip(1) {
            let floats: Float64Array = column(index).map(|x| x.parse::<f64>().ok()).collect();
            columns.push((name, Arc::new(floats)));
        }
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn predictions_equal_those_of_scikit_learn() {
        let Results::Table(table) = script().run_table(flowers()).unwrap() else { panic!() };
        let ids = table["id"].as_primitive::<Int64Type>();
        let species = table["species"].as_string::<i32>();
        let probabilities = table["probability"].as_primitive::<Float64Type>();
        let mut rows = 0;
        for (row, line) in include_str!("../expected/iris.txt").lines().enumerate() {
            let id = ids.value(row);
            let s = species.value(row);
            let p = probabilities.value(row);
            assert_eq!(format!("{id} {s} {p:?}"), line);
            rows += 1;
        }
        assert_eq!((rows, table.num_rows()), (150, 150));
    }

    #[test]
    fn a_table_without_the_models_columns_is_an_error() {
        let mut script = script();
        let narrow = flowers().project(&[0, 1, 2]).unwrap();
        let error = script.run_table(narrow).unwrap_err().to_string();
        assert_eq!(error, "the table has no column `petal_length`");
    }
}
