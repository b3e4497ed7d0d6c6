//! An ordinary guest (not a hostile one): returns an outcome for each file. A file with `bad` in its name is
//! a failed item, and any other file gives a row `NAME: BYTES`.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;

struct Guest;

impl EntryScript for Guest {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Guest)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| {
            let name = test_guests::name(file)?;
            if name.contains("bad") {
                return Err(format!("{name} is called bad").into());
            }
            Ok(format!("{name}: {}", sandmill_guest::read(file)?.len()))
        }))
    }
}

sandmill_guest::export!(Guest);
