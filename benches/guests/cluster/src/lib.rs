//! The entry script of the benchmark of jobs on several machines. Each mini-batch returns one row: its
//! number, and the time at which `run` began, in nanoseconds since 1970. The job's argument `--seconds` says how long a
//! mini-batch waits, and `--failures` how many attempts at it fail. The message of a failure is the time.

use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Void};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

struct Cluster {
    wait: Duration,
    failures: u32,
}

impl EntryScript for Cluster {
    type Input = Void;

    fn init(job: &Job) -> Result<Self> {
        let seconds = job.argument("--seconds").unwrap_or("0").parse().context("--seconds")?;
        let failures = job.argument("--failures").unwrap_or("0").parse().context("--failures")?;
        Ok(Cluster { wait: Duration::from_secs_f64(seconds), failures })
    }

    fn run(&mut self, _data: (), context: &MiniBatchContext) -> Result<Results> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos().to_string();
        if !self.wait.is_zero() {
            std::thread::sleep(self.wait);
        }
        match context.attempt <= self.failures {
            true => Err(began.into()),
            false => Ok(Results::rows([format!("{} {began}", context.id)])),
        }
    }
}

sandmill_guest::export!(Cluster);
