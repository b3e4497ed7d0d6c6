//! Options of the leader for a job, in addition to the job's own settings.

use super::job_state::{JobFile, PolicyUsed};
use crate::model::SignerKey;
use std::path::PathBuf;

/// Where the leader keeps a job, and what it does if the job was run before.
#[derive(Clone, Debug)]
pub struct LeaderOptions {
    /// The job directory. Created if it is missing.
    pub job_dir: PathBuf,
    /// Whether to start over if the job was run before. The earlier results are removed first.
    pub overwrite: bool,
    /// Whether to return the result of an earlier run, if nothing has changed since and the job file allows
    /// it (`allow_reuse`).
    pub reuse: bool,
    /// Where the job comes from, for `sandmill resume`. `None` if no job file describes the whole job.
    pub job_file: Option<JobFile>,
    /// The command line. Empty if a program runs the job through the library.
    pub command: Vec<String>,
    /// The operator's policy. `None` if there is none.
    pub policy: Option<PolicyUsed>,
    /// The key with which the leader signs what nodes execute. `None` if it signs nothing.
    pub signer: Option<SignerKey>,
    /// Whether this process waited while another one ran the job. Then it continues the job only if that
    /// process was lost.
    pub has_waited: bool,
    /// The id of the run that this process takes over, because its leader is lost. The job is continued only if this
    /// is its latest run, and if the run has not ended.
    pub take_over: Option<String>,
    /// Whether an agent started this process. Then agents may continue the job later.
    pub by_agent: bool,
    /// Whether the workers run on other machines. The job must have a store and a job file.
    pub remote_workers: bool,
    /// Notices for the user, one line each, in addition to those of the job and the node.
    pub notices: Vec<String>,
}
