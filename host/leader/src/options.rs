//! What the leader is to do with a job, beside what the job says.

use super::job_state::{JobFile, PolicyUsed};
use std::path::PathBuf;

/// Where the leader keeps a job, and what it does with an earlier run.
#[derive(Clone, Debug)]
pub struct LeaderOptions {
    /// The job directory; made if it is not there.
    pub job_dir: PathBuf,
    /// Whether to begin anew where the job was run before; its results are removed first.
    pub overwrite: bool,
    /// Whether the result of an earlier run may be taken instead, if nothing changed since and the
    /// job file does not forbid it (`allow_reuse`).
    pub reuse: bool,
    /// Where the job comes from, for `sandmill resume`; none if no job file says all of it.
    pub job_file: Option<JobFile>,
    /// The command line; empty if a program runs the job by the library.
    pub command: Vec<String>,
    /// The operator's policy; `None` without one.
    pub policy: Option<PolicyUsed>,
    /// What the user should know beside what the job and the node tell, one line each.
    pub notices: Vec<String>,
}
