//! Sample values for tests, with defaults for the fields that a test does not set.

#[cfg(test)]
use super::traps::TrapContext;
use super::{Grants, LogFolder, RunContext, Seed, SinkFile, no_models};
use crate::model::{Limits, LoggingLevel};
use std::path::Path;

impl Grants {
    /// No folders, models, arguments or environment. What a guest writes goes to `stdout.txt`, `stderr.txt`
    /// and `log.txt` in this folder.
    pub fn sample(folder: &Path) -> Self {
        let log = |name| SinkFile::open(&folder.join(name));
        Self {
            mounts: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            agent_name: "process000".to_owned(),
            node_id: "0".to_owned(),
            log_dir: "/logs".to_owned(),
            log_folder: LogFolder::new(folder.join("logs"), 1),
            output_dir: "/output".to_owned(),
            source_dir: None,
            gpu_index: None,
            models: no_models(),
            logging_level: LoggingLevel::Info,
            limits: Limits::default(),
            seed: Seed::before_mini_batches(),
            stdout: log("stdout.txt"),
            stderr: log("stderr.txt"),
            log: log("log.txt"),
        }
    }
}

impl RunContext<'_> {
    /// The first attempt at mini-batch 0 of an input without partition keys.
    pub fn sample() -> Self {
        Self { id: 0, dataset: "input", attempt: 1, partition_key_value: &[] }
    }
}

#[cfg(test)]
impl<'a> TrapContext<'a> {
    /// `run` has ended for an unknown reason.
    pub(super) fn sample(limits: &'a Limits) -> Self {
        Self { function: "run", limits, refusal: None, stderr: String::new() }
    }
}
