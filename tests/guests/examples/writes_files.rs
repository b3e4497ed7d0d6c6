//! Ordinary: writes files into the output folder: for each item a file `NAME.out` with the item's size, and
//! for each mini-batch a file `batches/ID.txt` in a folder that `init` creates. With `--fail`, the first
//! attempt at each mini-batch fails after it has written. `shutdown` writes `AGENT.shutdown` into the log
//! folder.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::fs;
use std::path::PathBuf;

struct Guest {
    job: Job,
    fail: bool,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        fs::create_dir_all(job.output_dir().join("batches"))?;
        Ok(Guest { job: job.clone(), fail: job.arguments().iter().any(|a| a == "--fail") })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        let out = self.job.output_dir();
        let mut rows = Vec::new();
        for file in files {
            let name = test_guests::name(file)?;
            let size = sandmill_guest::read(file)?.len();
            fs::write(out.join(format!("{name}.out")), size.to_string())?;
            rows.push(format!("{name}: {size}"));
        }
        let mark = format!("attempt {}", context.attempt);
        fs::write(out.join(format!("batches/{}.txt", context.id)), mark)?;
        if self.fail && context.attempt == 1 {
            return Err("failed after writing, as asked".into());
        }
        Ok(rows.into())
    }

    fn shutdown(&mut self) {
        let mark = format!("{}.shutdown", self.job.agent_name());
        if let Err(error) = fs::write(self.job.log_dir().join(mark), "done") {
            sandmill_guest::logging::error(format!("shutdown: {error}"));
        }
    }
}

sandmill_guest::export!(Guest);
