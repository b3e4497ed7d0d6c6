//! What goes into a node's machine, and what comes out.

use crate::model::{AttemptReport, CallStats, Failure, MiniBatchId, WorkerExit, WorkerId};
use crate::protocol::{Assignment, News};

/// What happened on a node.
#[derive(Clone, Debug)]
pub enum NodeMessage {
    /// A worker process runs.
    Spawned(WorkerId, u32),
    /// A worker process could not be started.
    SpawnFailed(WorkerId, String),
    /// A worker process was not started, as other jobs use all that the machine gives: its number is
    /// used again. In one round of actions, all that follow it get the same answer.
    NoRoom(WorkerId),
    /// A worker has an instance whose `init` succeeded.
    Ready(WorkerId, CallStats),
    /// A worker's instance broke, and it makes a new one.
    Restarting(WorkerId),
    /// A worker could not get one. It will exit.
    InitFailed(WorkerId, Failure),
    /// `run` begins.
    Started(WorkerId, MiniBatchId),
    /// An attempt ended.
    Finished(WorkerId, Box<AttemptReport>),
    /// A worker uses more memory than it may: it is to be killed, and its attempt has failed by
    /// that.
    Overrun(WorkerId, Failure),
    /// A worker process is gone.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that is gone, which was not free then, is free.
    GpuFree(WorkerId),
    /// What a worker is at with a model, in words that follow "was"; comes right before [`Self::Tick`].
    Inferring(WorkerId, String),
    /// Time has passed.
    Tick,
}

/// What to do on a node.
#[derive(Clone, Debug)]
pub enum NodeAction {
    /// Start a worker process, with the index of the GPU that is leased to it.
    Spawn(WorkerId, Option<u32>),
    /// Hand over an attempt, to follow those that the worker has.
    Assign(WorkerId, Assignment),
    /// Hand over an attempt that comes before those that the worker has. It waits after a failed one.
    AssignFirst(WorkerId, Assignment),
    /// Let a worker that waits after a failed attempt go on with what it has.
    GoOn(WorkerId),
    /// Ask for an orderly end.
    Shutdown(WorkerId),
    /// Kill.
    Kill(WorkerId),
}

/// What comes out of a node's machine, in order.
#[derive(Clone, Debug)]
pub enum NodeOutput {
    /// To be done here.
    Do(NodeAction),
    /// To be reported to the leader.
    Tell(News),
}
