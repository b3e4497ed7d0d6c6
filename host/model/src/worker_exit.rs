//! How a worker process ended, as reported by its node.

use super::Failure;

/// How a worker process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExit {
    /// The exit code. `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The signal that ended the process. `None` if it exited.
    pub signal: Option<i32>,
    /// The end of the worker's stderr. If the worker was killed because of a fault in its last
    /// message, the text begins with that fault.
    pub note: String,
    /// The failure, if the kernel killed the process at the limit of its cgroup.
    pub failure: Option<Failure>,
    /// Whether the kernel's OOM killer cannot be the cause, because it has killed no process since
    /// the job began. False if the kernel does not report this.
    pub not_for_memory: bool,
    /// Whether the worker's GPU is still occupied. A separate message follows when the GPU is free.
    pub holds_gpu: bool,
}
