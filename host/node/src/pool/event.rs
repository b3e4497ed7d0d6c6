//! What the pool tells the engine.

use crate::model::{WorkerExit, WorkerId};
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
