//! Counts bytes, lines and words of files, and hashes their contents. The job's argument selects the way to
//! read files: `--via sdk` for one call to the host for each file, or `--via fs` for the standard library.

use sandmill_guest::{Context, EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::{Path, PathBuf};

#[path = "../../../kernels/tally.rs"]
mod kernel;

struct Tally {
    read: fn(&Path) -> std::io::Result<Vec<u8>>,
}

impl EntryScript for Tally {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        match job.argument("--via").context("the argument --via is missing")? {
            "sdk" => Ok(Tally { read: |path| sandmill_guest::read(path) }),
            "fs" => Ok(Tally { read: |path| std::fs::read(path) }),
            other => Err(format!("--via is sdk or fs, not {other}").into()),
        }
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| {
            let name = file.file_name().and_then(|name| name.to_str()).context("no name")?;
            Ok(kernel::tally(name, &(self.read)(file)?))
        }))
    }
}

sandmill_guest::export!(Tally);
