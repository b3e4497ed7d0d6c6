//! The events that the pool reports to its owner.

use crate::model::{WorkerExit, WorkerId};
use crate::protocol::FromWorker;

/// An event of a worker process.
#[derive(Debug)]
pub enum PoolEvent {
    /// A worker sent a message.
    Worker(WorkerId, FromWorker),
    /// A notice for the user.
    Notice(String),
    /// A worker is gone; its last message has been delivered.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that is gone is free again.
    GpuFree(WorkerId),
}
