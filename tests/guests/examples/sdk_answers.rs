//! Ordinary: what the SDK answers in a component. One row for each file, `NAME|KIND`, where the kind is
//! that of the error of reading the file, or `read`.
//! Paths in arguments after `--also` are read too, and told in the log.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results, log};
use std::path::{Path, PathBuf};

struct Guest;

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        log::info!(
            "fast {} {:?} {:?}",
            job.flag("--fast"),
            job.argument("--fast"),
            job.env("MODE")
        );
        let also = job.arguments().iter().skip_while(|argument| *argument != "--also").skip(1);
        for path in also {
            log::info!("{}", kind(Path::new(path)));
        }
        Ok(Guest)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| Ok(kind(file))))
    }
}

sandmill_guest::export!(Guest);

fn kind(path: &Path) -> String {
    match sandmill_guest::read(path) {
        Ok(_) => format!("{}|read", path.display()),
        Err(error) => format!("{}|{:?}", path.display(), error.kind()),
    }
}
