//! An ordinary guest (not a hostile one): returns the size of each file as a row `NAME: BYTES`. Reads the
//! files with the host's `read`.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;

struct Guest;

impl EntryScript for Guest {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Guest)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        test_guests::sizes(files, |file| sandmill_guest::read(file))
    }
}

sandmill_guest::export!(Guest);
