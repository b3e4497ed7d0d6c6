//! A job that is ready to run, or whose earlier result is reused.

use super::Claim;
use super::job_store::JobStore;
use super::nodes::RemoteWork;
use super::stored_plan::{KnownPlan, PlanUse};
use crate::journal::Journal;
use crate::model::{JobDir, JobResult, Source};
use crate::spec::JobSpec;
use jiff::Timestamp;
use sandmill_commit_log::CommitLog;
use std::path::PathBuf;

/// The outcome of preparing a job on a node.
#[derive(Debug)]
pub enum PreparedOnNode<N> {
    /// The job can run, or resume.
    Job(Box<PreparedJob<N>>),
    /// The job was run before, and nothing has changed since. This is its result.
    Reused(Box<Reused>),
}

/// Everything that a job needs to run: what the leader knows about the job, and what the node holds for it.
#[derive(Debug)]
pub struct PreparedJob<N> {
    /// The job's settings.
    pub spec: JobSpec,
    /// The folder for copies of logs and metrics, if the job has a parent. No other job uses it.
    pub parent: Option<PathBuf>,
    /// The inputs' folders.
    pub sources: Vec<Source>,
    /// The SHA-256 of the entry script's component, in hexadecimal.
    pub component: String,
    /// The runtime that runs the entry script, as shown to users.
    pub runtime: Option<String>,
    /// The job directory. This process owns it until the job ends.
    pub claim: Claim,
    /// The same directory, for its paths.
    pub job_dir: JobDir,
    /// The names and values of the settings that decide the job's rows. Only used to create a new journal.
    pub(super) settings: Vec<(String, String)>,
    /// What an earlier run left, if the job resumes.
    pub(super) resumed: Option<ResumedJob>,
    /// Files that an earlier run could not read, with the indices of their sources.
    pub(super) unreadable: Vec<(u32, String)>,
    /// Notices for the user from the preparation of the job, in addition to those of `spec`.
    pub(super) notices: Vec<String>,
    /// The id of the run that began the journal.
    pub(super) run: String,
    /// The job's store, if it has one.
    pub(super) store: Option<JobStore>,
    /// The plan in the job's store.
    pub(super) plan: Option<PlanUse>,
    /// What other machines must know to run the workers. `None` if the workers run on this machine.
    pub(super) remote: Option<RemoteWork>,
    /// What the node holds for the job.
    pub(super) node: N,
}

impl<N> PreparedJob<N> {
    /// The directory with the folders of workers: the job directory, or a folder in the job's store.
    pub(super) fn worker_dir(&self) -> &JobDir {
        self.remote.as_ref().map_or(&self.job_dir, |remote| &remote.folder)
    }
}

/// The result of an earlier run, reused for this one.
#[derive(Clone, Debug)]
pub struct Reused {
    /// The job.
    pub spec: JobSpec,
    /// The job's result.
    pub result: JobResult,
    /// When the earlier run ended.
    pub ended: Timestamp,
    /// The output folder.
    pub output: PathBuf,
    /// The job directory.
    pub job_dir: JobDir,
}

/// What an earlier run of a job left, for the driver.
#[derive(Debug)]
pub(super) struct ResumedJob {
    pub(super) journal: Journal,
    /// Whether mini-batches that failed for good are tried again (docs/parallel-run-step.md W15).
    /// True if the earlier run failed, and false if it was interrupted.
    pub(super) retry_failed: bool,
    /// Files that the earlier run could not read. See
    /// [`PlanOptions::retried_files`](crate::protocol::node::PlanOptions::retried_files).
    pub(super) unreadable: Vec<(u32, String)>,
    /// The commit log to continue, if the job's store has one.
    pub(super) log: Option<CommitLog>,
    /// What the earlier run has planned, if the job's store has it.
    pub(super) plan: Option<KnownPlan>,
}
