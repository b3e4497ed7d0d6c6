//! An ordinary guest (not a hostile one): writes files into the output folder. For each item, it writes a
//! file `NAME.out` with the item's size. For each mini-batch, it writes a file `batches/ID.txt`, in a folder
//! that `init` creates. With `--fail`, the first attempt at each mini-batch fails after it has written its
//! files. With `--nap MILLISECONDS`, each mini-batch takes at least that long. With `--no-init-on NODE`, `init` fails
//! on the node with this number. `shutdown` writes `AGENT.shutdown` into the log folder, where AGENT is the worker's
//! name.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

struct Guest {
    job: Job,
    fails_first: bool,
    nap: Duration,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        if job.argument("--no-init-on") == Some(job.node_id()) {
            return Err("init fails on this node, as asked".into());
        }
        fs::create_dir_all(job.output_dir().join("batches"))?;
        let nap = job.argument("--nap").map_or(Ok(0), str::parse)?;
        Ok(Guest {
            job: job.clone(),
            fails_first: job.flag("--fail"),
            nap: Duration::from_millis(nap),
        })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        std::thread::sleep(self.nap);
        let out = self.job.output_dir();
        let mut rows = Vec::new();
        for file in files {
            let name = test_guests::name(file)?;
            let size = sandmill_guest::read(file)?.len();
            fs::write(out.join(format!("{name}.out")), size.to_string())?;
            rows.push(format!("{name}: {size}"));
        }
        let content = format!("attempt {}", context.attempt);
        fs::write(out.join(format!("batches/{}.txt", context.id)), content)?;
        if self.fails_first && context.attempt == 1 {
            return Err("failed after writing, as asked".into());
        }
        Ok(rows.into())
    }

    fn shutdown(&mut self) {
        let name = format!("{}.shutdown", self.job.agent_name());
        if let Err(error) = fs::write(self.job.log_dir().join(name), "done") {
            sandmill_guest::logging::error(format!("shutdown: {error}"));
        }
    }
}

sandmill_guest::export!(Guest);
