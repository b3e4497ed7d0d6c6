//! An ordinary guest (not a hostile one): `init`, `run` and `shutdown` each print a text without a line end.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;

struct Guest;

impl EntryScript for Guest {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        print!("init,");
        Ok(Guest)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        print!("run,");
        Ok(Results::each(files, |file| test_guests::name(file)))
    }

    fn shutdown(&mut self) {
        print!("shutdown");
    }
}

sandmill_guest::export!(Guest);
