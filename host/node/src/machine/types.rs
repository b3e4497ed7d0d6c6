//! The inputs and outputs of a node's machine.

use crate::model::{AttemptReport, CallStats, Failure, MiniBatchId, WorkerExit, WorkerId};
use crate::protocol::{Assignment, NodeNews};

/// What happened on a node.
#[derive(Clone, Debug)]
pub enum NodeMessage {
    /// A worker process has started. Has its process id.
    Spawned(WorkerId, u32),
    /// A worker process could not be started.
    SpawnFailed(WorkerId, String),
    /// A worker process was not started because other jobs use the whole machine: its number is used again.
    /// In one round of actions, all later spawns get the same answer.
    NoRoom(WorkerId),
    /// A worker has an instance whose `init` succeeded.
    Ready(WorkerId, CallStats),
    /// A worker's instance broke, and the worker makes a new one.
    Restarting(WorkerId),
    /// A worker's `init` failed, or it could not load the component. It will exit.
    InitFailed(WorkerId, Failure),
    /// A worker has called `run`.
    Started(WorkerId, MiniBatchId),
    /// An attempt ended.
    Finished(WorkerId, Box<AttemptReport>),
    /// A worker uses more than it may: it must be killed, which makes its attempt fail.
    Overrun(WorkerId, Failure),
    /// A worker process is gone.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that exited earlier is free now.
    GpuFree(WorkerId),
    /// A worker's current model call, in words that follow "was". Comes right before [`Self::Tick`].
    Inferring(WorkerId, String),
    /// Time has passed.
    Tick,
}

/// What to do on a node.
#[derive(Clone, Debug)]
pub enum NodeAction {
    /// Start a worker process, with the index of the GPU that is leased to it.
    Spawn(WorkerId, Option<u32>),
    /// Give a worker an attempt, after those that it has.
    Assign(WorkerId, Assignment),
    /// Give a worker an attempt to run before those that it has. The worker waits after a failed one.
    AssignFirst(WorkerId, Assignment),
    /// Let a worker continue that waits after a failed attempt.
    GoOn(WorkerId),
    /// Ask a worker to end in order.
    Shutdown(WorkerId),
    /// Kill a worker.
    Kill(WorkerId),
}

/// What comes out of a node's machine, in order.
#[derive(Clone, Debug)]
pub enum NodeOutput {
    /// An action to do here.
    Do(NodeAction),
    /// News to report to the leader.
    Report(NodeNews),
}
