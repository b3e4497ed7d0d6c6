//! A hostile guest: misbehaves in `init` as `--do WHAT` says (see src/harm.rs). With `--on-agent NAME`, only
//! the worker of that name does so. With `--in-shutdown`, the guest misbehaves in `shutdown` instead. `run`
//! returns the size of each file, as `echo_files` does.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;
use test_guests::harm::Harm;

struct Guest {
    shutdown_harm: Option<Harm>,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let harm = Harm::from_arguments(job)?;
        if job.arguments().iter().any(|a| a == "--in-shutdown") {
            return Ok(Guest { shutdown_harm: Some(harm) });
        }
        if job.argument("--on-agent").is_none_or(|name| name == job.agent_name()) {
            harm.init()?;
        }
        Ok(Guest { shutdown_harm: None })
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        test_guests::sizes(files, |file| sandmill_guest::read(file))
    }

    fn shutdown(&mut self) {
        if let Some(Err(error)) = self.shutdown_harm.as_ref().map(Harm::init) {
            sandmill_guest::logging::error(error.to_string());
        }
    }
}

sandmill_guest::export!(Guest);
