//! A job that is ready to run.

use super::Claim;
use super::taking_up::TakenUp;
use crate::compile::Compiled;
use crate::model::{JobDir, ProcessLists, Source};
use crate::node::{Gpus, RealPaths, Seen};
use crate::pool::Standby;
use crate::spec::JobSpec;
use crate::store::Objects;
use crate::turns::Turns;
use std::path::PathBuf;

/// All that a job needs to run.
#[derive(Debug)]
pub struct Job {
    /// What to do.
    pub spec: JobSpec,
    /// The paths that it names, without links.
    pub(super) real: RealPaths,
    /// The folder for copies of logs and metrics, if the job has a parent; this job's alone.
    pub parent: Option<PathBuf>,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// Where objects of stores lie that the inputs are made of.
    pub(super) objects: Objects,
    /// The compiled entry script.
    pub component: Compiled,
    /// The `sandmill` binary, for child processes.
    pub program: PathBuf,
    /// The job directory, ours until the end.
    pub claim: Claim,
    /// The same, for its paths.
    pub job_dir: JobDir,
    /// What decides its rows, by name, for a journal that is made; unused if there is one.
    pub(super) settings: Vec<(String, String)>,
    /// What its models were when they were looked at.
    pub(super) models: Vec<Seen>,
    /// What an earlier run left, if the job is taken up.
    pub(super) taken_up: Option<TakenUp>,
    /// Files that an earlier run could not read.
    pub(super) again: Vec<(u32, String)>,
    /// Processes that were started meanwhile, if any.
    pub(super) standby: Option<Standby>,
    /// Which processes its reports list.
    pub(super) process_lists: ProcessLists,
    /// The machine's caps; none if there are none.
    pub(super) turns: Option<Turns>,
    /// The GPUs that are this job's alone.
    pub(super) gpus: Gpus,
}
