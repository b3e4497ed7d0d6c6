//! A job that is ready to run.

use super::Claim;
use super::taking_up::TakenUp;
use crate::model::{JobDir, Source};
use crate::spec::JobSpec;
use std::path::PathBuf;

/// All that a job needs to run: what the leader knows of it, and what a node holds for it.
#[derive(Debug)]
pub struct Job<N> {
    /// What to do.
    pub spec: JobSpec,
    /// The folder for copies of logs and metrics, if the job has a parent; this job's alone.
    pub parent: Option<PathBuf>,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// The SHA-256 of the entry script's component, in hexadecimal.
    pub component: String,
    /// The job directory, ours until the end.
    pub claim: Claim,
    /// The same, for its paths.
    pub job_dir: JobDir,
    /// What decides its rows, by name, for a journal that is made; unused if there is one.
    pub(super) settings: Vec<(String, String)>,
    /// What an earlier run left, if the job is taken up.
    pub(super) taken_up: Option<TakenUp>,
    /// Files that an earlier run could not read.
    pub(super) again: Vec<(u32, String)>,
    /// What the user should know beside the notices of `spec`: what was found while the job was prepared.
    pub(super) notices: Vec<String>,
    /// What the node holds for it.
    pub(super) node: N,
}
