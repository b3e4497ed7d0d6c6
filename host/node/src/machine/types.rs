//! The inputs and outputs of a node's machine.

use crate::model::{AttemptReport, CallStats, Failure, MiniBatchId, WorkerExit, WorkerId};
use crate::protocol::store::UnfetchedObject;
use crate::protocol::{Assignment, NodeNews};

/// What happened on a node.
#[derive(Clone, Debug)]
pub enum NodeMessage {
    /// A worker process has started. Holds its process id.
    Spawned(WorkerId, u32),
    /// A worker process could not be started.
    SpawnFailed(WorkerId, String),
    /// A worker process was not started because other jobs use the whole machine. Its number is used again.
    /// All later starts of the same round get the same answer.
    NoRoom(WorkerId),
    /// A worker has an instance whose `init` succeeded.
    Ready(WorkerId, CallStats),
    /// A worker's instance broke, and the worker makes a new one.
    Restarting(WorkerId),
    /// A worker's `init` failed, or the worker could not load the component. The worker will exit.
    InitFailed(WorkerId, Failure),
    /// The objects of an attempt of this worker are here, and the worker gets the attempt.
    Fetched(WorkerId, MiniBatchId, u32),
    /// These objects of an attempt of this worker could not be fetched. The worker has not got the attempt.
    Unfetched(WorkerId, MiniBatchId, u32, Vec<UnfetchedObject>),
    /// A worker has called `run`.
    Started(WorkerId, MiniBatchId),
    /// An attempt ended.
    Finished(WorkerId, Box<AttemptReport>),
    /// A worker uses more than it may. It must be killed, and its attempt fails.
    Overrun(WorkerId, Failure),
    /// A worker process is gone.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that exited earlier is free now.
    GpuFree(WorkerId),
    /// The job has so many workers more than its share of the machine. They end at the borders of mini-batches.
    BeyondShare(u32),
    /// From now on, the machine's disk has no room for more attempts, or it has room again. What workers have goes on.
    Full(bool),
    /// A worker's current model call, in words that continue "the worker was". Comes right before
    /// [`Self::Tick`].
    Inferring(WorkerId, String),
    /// Time has passed.
    Tick,
}

/// What to do on a node.
#[derive(Clone, Debug)]
pub enum NodeAction {
    /// Start a worker process, with the index of the GPU that is leased to it.
    Spawn(WorkerId, Option<u32>),
    /// Give a worker an attempt to run after its other attempts. If the attempt has objects, fetch them first. The result
    /// is [`NodeMessage::Fetched`] or [`NodeMessage::Unfetched`].
    Assign(WorkerId, Assignment),
    /// Do not give this attempt to this worker. Its objects are still being fetched.
    Withdraw(WorkerId, MiniBatchId, u32),
    /// Give an attempt to a worker that waits after a failed attempt. The worker runs it before its
    /// queue.
    AssignFirst(WorkerId, Assignment),
    /// Let a worker that waits after a failed attempt continue.
    GoOn(WorkerId),
    /// Ask a worker to finish its work, call `shutdown` and exit.
    Shutdown(WorkerId),
    /// Kill a worker.
    Kill(WorkerId),
}

/// An output of a node's machine.
#[derive(Clone, Debug)]
pub enum NodeOutput {
    /// An action to do here.
    Do(NodeAction),
    /// News to report to the leader.
    Report(NodeNews),
}
