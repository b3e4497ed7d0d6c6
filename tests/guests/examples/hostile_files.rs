//! A hostile guest: misbehaves in `run` as `--do WHAT` says (see src/harm.rs). It does so in every attempt
//! and mini-batch, or only in attempt N (`--on-attempt N`) or mini-batch N (`--on-batch N`). Otherwise it
//! returns the size of each file, as `echo_files` does.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;
use test_guests::harm::Harm;

struct Guest(Harm);

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        Harm::from_arguments(job).map(Guest)
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        self.0
            .run(context, files.len())
            .unwrap_or_else(|| test_guests::sizes(files, |file| sandmill_guest::read(file)))
    }
}

sandmill_guest::export!(Guest);
