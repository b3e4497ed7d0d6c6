//! A hostile guest: misbehaves as `hostile_files` does, but takes tables. In attempts and mini-batches in
//! which it does not misbehave, it returns its table unchanged, as `echo_table` does.

use sandmill_guest::arrow_array::RecordBatch;
use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Table};
use test_guests::harm::Harm;

struct Guest(Harm);

impl EntryScript for Guest {
    type Input = Table;

    fn init(job: &Job) -> Result<Self> {
        Harm::from_arguments(job).map(Guest)
    }

    fn run(&mut self, table: RecordBatch, context: &MiniBatchContext) -> Result<Results> {
        self.0.run(context, table.num_rows()).unwrap_or_else(|| Ok(table.into()))
    }
}

sandmill_guest::export!(Guest);
