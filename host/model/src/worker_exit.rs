//! How a worker process ended, as its node tells it.

use super::Failure;

/// How a worker process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What was wrong with its last message, if it was killed for that; the end of its stderr.
    pub note: String,
    /// What it did, where the limit of its cgroup ended it.
    pub failure: Option<Failure>,
    /// Whether it was not the kernel that killed it for lack of memory, as that has killed nobody since the job
    /// began. False where nobody tells.
    pub not_for_memory: bool,
    /// Whether its GPU is not free yet: a message of its own follows once it is.
    pub holds_gpu: bool,
}
