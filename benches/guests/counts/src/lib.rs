//! The entry script of the benchmark of a large table on several machines. The first row of each mini-batch has its number,
//! how many rows it has, the number of the attempt, and the time at which `run` began, in nanoseconds since 1970. Its
//! other rows are empty.

use sandmill_guest::arrow_array::RecordBatch;
use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Table};
use std::time::{SystemTime, UNIX_EPOCH};

struct Counts;

impl EntryScript for Counts {
    type Input = Table;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Counts)
    }

    fn run(&mut self, table: RecordBatch, context: &MiniBatchContext) -> Result<Results> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let id = context.id;
        let attempt = context.attempt;
        let rows = table.num_rows();
        let mut results = vec![String::new(); rows];
        if let Some(first) = results.first_mut() {
            *first = format!("{id} {rows} {attempt} {began}");
        }
        Ok(results.into())
    }
}

sandmill_guest::export!(Counts);
