//! How a worker process ended, as reported by its node.

use super::Failure;

/// How a worker process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExit {
    /// The exit code. `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The signal that ended the process. `None` if it exited.
    pub signal: Option<i32>,
    /// The end of the worker's stderr. If the leader killed the worker because of a fault in the worker's
    /// last message, the text begins with that fault.
    pub note: String,
    /// The failure, if the kernel killed the process at the limit of its cgroup.
    pub failure: Option<Failure>,
    /// True if signal 9 ended the process, and the kernel reports that its OOM killer has killed no process
    /// since the job began. So the OOM killer is not the cause.
    pub not_for_memory: bool,
    /// Whether the worker's GPU is still occupied. A separate message follows when the GPU is free.
    pub holds_gpu: bool,
}
