//! A job that is ready to run, or was run before.

use super::Claim;
use crate::journal::Journal;
use crate::model::{JobDir, JobResult, Source};
use crate::spec::JobSpec;
use jiff::Timestamp;
use std::path::PathBuf;

/// What came of preparing a job on a node.
#[derive(Debug)]
pub enum Prepared<N> {
    /// It can run; perhaps from where it was interrupted.
    Job(Box<Job<N>>),
    /// It was run before, and nothing has changed since: this is the result.
    Reused(Box<Reused>),
}

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
    /// The runtime that runs the entry script, for people.
    pub runtime: Option<String>,
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

/// The result of an earlier run, that holds for this one.
#[derive(Clone, Debug)]
pub struct Reused {
    /// The job.
    pub spec: JobSpec,
    /// What it came to.
    pub result: JobResult,
    /// When.
    pub ended: Timestamp,
    /// The output folder.
    pub output: PathBuf,
    /// The job directory.
    pub job_dir: JobDir,
}

/// What an earlier run of a job left, for the driver.
#[derive(Debug)]
pub(super) struct TakenUp {
    pub(super) journal: Journal,
    /// Whether mini-batches that failed for good are tried again (prs-semantics W15): after a job
    /// that failed, not after one that was interrupted.
    pub(super) retry_failed: bool,
    /// Files that the earlier plan could not read ([`Plan::again`](crate::protocol::node::Plan::again)).
    pub(super) again: Vec<(u32, String)>,
}
