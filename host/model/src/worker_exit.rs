//! How a worker process ended, as reported by its node.

use super::Failure;

/// How a worker process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The fault in its last message, if it was killed for that, and the end of its stderr.
    pub note: String,
    /// The failure, if the limit of its cgroup ended it.
    pub failure: Option<Failure>,
    /// Whether the kernel's OOM killer can be excluded, because it has not killed any process since the job
    /// began. False if the kernel does not report this.
    pub not_for_memory: bool,
    /// Whether its GPU is still occupied. A separate message follows when the GPU is free.
    pub holds_gpu: bool,
}
