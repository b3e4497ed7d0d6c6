//! Hostile: misbehaves in `run` as `--do WHAT` says (see src/harm.rs), in every attempt and mini-batch, or
//! only in those of `--on-attempt N` and `--on-batch N`. Otherwise it behaves as `echo_files`.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;
use test_guests::harm::Harm;

struct Guest(Harm);

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        Harm::of(job).map(Guest)
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        self.0
            .run(context, files.len())
            .unwrap_or_else(|| test_guests::sizes(files, |file| sandmill_guest::read(file)))
    }
}

sandmill_guest::export!(Guest);
