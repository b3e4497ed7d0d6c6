//! An ordinary guest (not a hostile one): shows what the SDK returns in a component. Returns a row for each
//! file, `PATH|KIND`: KIND is `read` if the guest could read the file, and otherwise the kind of the error.
//! The guest also reads the paths that follow `--also`, and logs a line `PATH|KIND` for each.

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
            log::info!("{}", path_and_kind(Path::new(path)));
        }
        Ok(Guest)
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| Ok(path_and_kind(file))))
    }
}

sandmill_guest::export!(Guest);

/// `PATH|KIND`.
fn path_and_kind(path: &Path) -> String {
    match sandmill_guest::read(path) {
        Ok(_) => format!("{}|read", path.display()),
        Err(error) => format!("{}|{:?}", path.display(), error.kind()),
    }
}
