//! An ordinary guest (not a hostile one): takes void mini-batches, which have no items. Returns the row
//! `rank ID` for each mini-batch.

use sandmill_guest::{EntryScript, Job, MiniBatchContext, Result, Results, Void};

struct Guest;

impl EntryScript for Guest {
    type Input = Void;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Guest)
    }

    fn run(&mut self, (): (), context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::rows([format!("rank {}", context.id)]))
    }
}

sandmill_guest::export!(Guest);
