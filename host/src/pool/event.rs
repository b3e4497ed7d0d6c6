//! What the pool tells the engine.

use crate::model::{Failure, WorkerId};
use crate::protocol::FromWorker;

/// What comes from worker processes.
#[derive(Debug)]
pub enum PoolEvent {
    /// A worker said something.
    Worker(WorkerId, FromWorker),
    /// Something for the user.
    Notice(String),
    /// A worker is gone, its last message delivered.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that is gone is free.
    GpuFree(WorkerId),
}

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
    /// Whether its GPU is not free yet: [`PoolEvent::GpuFree`] follows once it is.
    pub holds_gpu: bool,
}
