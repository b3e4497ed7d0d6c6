//! An ordinary guest (not a hostile one): keeps state between calls. Returns a row for each file,
//! `NAME AGENT RUN`: AGENT is the worker's name, and RUN counts the calls of `run` in this instance, from 1.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::path::PathBuf;

struct Guest {
    agent: String,
    runs: u64,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        Ok(Guest { agent: job.agent_name().to_owned(), runs: 0 })
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        self.runs += 1;
        let rows: Result<Vec<String>> = files
            .iter()
            .map(|f| Ok(format!("{} {} {}", test_guests::name(f)?, self.agent, self.runs)))
            .collect();
        Ok(rows?.into())
    }
}

sandmill_guest::export!(Guest);
