//! A Sandmill entry script: adds the body mass index to a table of people.

use sandmill_guest::arrow_array::RecordBatch;
use sandmill_guest::{Columns, EntryScript, Job, MiniBatchContext, Result, Results, Table};

struct Script;

impl EntryScript for Script {
    type Input = Table;

    // Called once per worker. Read arguments and load models here.
    fn init(_job: &Job) -> Result<Self> {
        Ok(Script)
    }

    // Called once per mini-batch. Returns the columns of the mini-batch and a new one.
    fn run(&mut self, people: RecordBatch, _context: &MiniBatchContext) -> Result<Results> {
        let (height, weight) = (people.f64("height")?, people.f64("weight")?);
        let bmi: Vec<f64> = height.iter().zip(&weight).map(|(h, w)| w / (h * h)).collect();
        Results::with_columns(&people, [("bmi", bmi)])
    }
}

sandmill_guest::export!(Script);

#[cfg(test)]
mod tests {
    use super::*;
    use sandmill_guest::IntoColumn;
    use sandmill_guest::test::TestHost;

    #[test]
    fn adds_the_body_mass_index() {
        let height = vec![2.0, 1.0].into_column();
        let weight = vec![80_i64, 20].into_column();
        let people = RecordBatch::try_from_iter([("height", height), ("weight", weight)]).unwrap();
        let mut script = TestHost::new().init::<Script>().unwrap();
        let Results::Table(table) = script.run_table(people).unwrap() else { panic!() };
        assert_eq!(table.f64("bmi").unwrap(), [20.0, 20.0]);
    }
}
