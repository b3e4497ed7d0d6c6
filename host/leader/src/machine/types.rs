//! The messages and actions of a job on one computer.

use super::job::{JobAction, JobMessage, SettledMiniBatch};
use crate::event::EventKind;
use crate::model::{
    AttemptReceipt, AttemptReport, CallStats, Failure, JobResult, MiniBatch, MiniBatchId,
    WorkerExit, WorkerId,
};
use crate::protocol::Assignment;
use sandmill_node::machine::{NodeAction, NodeMessage};

/// What happened.
#[derive(Clone, Debug)]
pub(super) enum MachineMessage {
    /// More mini-batches were planned.
    Planned(Vec<MiniBatch>),
    /// The plan is complete.
    PlanFinished,
    /// The inputs cannot be cut into mini-batches.
    PlanFailed(String),
    /// A notice for the user.
    Notice(String),
    /// A worker process is running.
    Spawned(WorkerId, u32),
    /// A worker process could not be started.
    SpawnFailed(WorkerId, String),
    /// A worker process was not started, because other jobs use everything that the machine gives to jobs.
    /// The next worker gets its number. All later starts in the same round of actions get the same answer.
    NoRoom(WorkerId),
    /// The job has so many workers more than its share of the machine.
    BeyondShare(u32),
    /// A worker has an instance whose `init` has succeeded.
    Ready(WorkerId, CallStats),
    /// A worker's instance broke, and the worker is making a new one.
    Restarting(WorkerId),
    /// A worker could not make an instance. It will exit.
    InitFailed(WorkerId, Failure),
    /// `run` has begun.
    Started(WorkerId, MiniBatchId),
    /// An attempt ended.
    Finished(WorkerId, Box<AttemptReport>),
    /// A worker uses more memory than it may. It will be killed, and its attempt has failed.
    Overrun(WorkerId, Failure),
    /// A worker process is gone.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that is gone has become free. It was still in use when the worker exited.
    GpuFree(WorkerId),
    /// These mini-batches are in the journal and in the output.
    Committed(Vec<MiniBatchId>),
    /// This mini-batch cannot be committed, for a reason in its own rows or files.
    Rejected(MiniBatchId, Failure),
    /// Nothing can be committed from now on.
    CommitFailed(String),
    /// The disk has no room for what mini-batches need. Pending commits still complete.
    NoSpace(String),
    /// The user wants the job to end.
    Cancel {
        /// Why, as text for the user.
        reason: String,
        /// Whether workers are killed immediately.
        at_once: bool,
    },
    /// What a worker is doing with a model, as a text that continues "the worker was". Sent right before
    /// [`Self::Tick`].
    Inferring(WorkerId, String),
    /// Time has passed.
    Tick,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum MachineAction {
    /// Start a worker process, with the index of the GPU that is leased to it.
    Spawn(WorkerId, Option<u32>),
    /// Queue an attempt in a worker, after the attempts that the worker already has.
    Assign(WorkerId, Assignment),
    /// Take an attempt back whose objects are still being fetched.
    Withdraw(WorkerId, MiniBatchId, u32),
    /// Queue an attempt in a worker, before the attempts that the worker already has. The worker is waiting
    /// after a failed attempt.
    AssignFirst(WorkerId, Assignment),
    /// Let a worker that is waiting after a failed attempt continue with its queue.
    GoOn(WorkerId),
    /// Ask a worker to end normally.
    Shutdown(WorkerId),
    Kill(WorkerId),
    /// Put the rows and files of an ended mini-batch into the output, and its end into the journal.
    Commit(SettledMiniBatch),
    Receipt(Box<AttemptReceipt>),
    Emit(EventKind),
    /// The job is over. Always the last action.
    Finish(Box<JobResult>),
}

impl From<NodeAction> for MachineAction {
    fn from(action: NodeAction) -> Self {
        match action {
            NodeAction::Spawn(worker, gpu) => Self::Spawn(worker, gpu),
            NodeAction::Assign(worker, assignment) => Self::Assign(worker, assignment),
            NodeAction::Withdraw(worker, id, attempt) => Self::Withdraw(worker, id, attempt),
            NodeAction::AssignFirst(worker, assignment) => Self::AssignFirst(worker, assignment),
            NodeAction::GoOn(worker) => Self::GoOn(worker),
            NodeAction::Shutdown(worker) => Self::Shutdown(worker),
            NodeAction::Kill(worker) => Self::Kill(worker),
        }
    }
}

impl From<JobAction> for MachineAction {
    fn from(action: JobAction) -> Self {
        match action {
            JobAction::Commit(settled) => Self::Commit(settled),
            JobAction::Receipt(receipt) => Self::Receipt(receipt),
            JobAction::Emit(kind) => Self::Emit(kind),
            JobAction::Finish(result) => Self::Finish(result),
        }
    }
}

/// The recipient of a message.
#[derive(Debug)]
pub(super) enum Addressed {
    Job(JobMessage),
    Node(NodeMessage),
    Both,
}

impl From<MachineMessage> for Addressed {
    fn from(message: MachineMessage) -> Self {
        match message {
            MachineMessage::Planned(batches) => Self::Job(JobMessage::Planned(batches)),
            MachineMessage::PlanFinished => Self::Job(JobMessage::PlanFinished),
            MachineMessage::PlanFailed(text) => Self::Job(JobMessage::PlanFailed(text)),
            MachineMessage::Notice(text) => Self::Job(JobMessage::Notice(text)),
            MachineMessage::Spawned(id, pid) => Self::Node(NodeMessage::Spawned(id, pid)),
            MachineMessage::SpawnFailed(id, text) => Self::Node(NodeMessage::SpawnFailed(id, text)),
            MachineMessage::NoRoom(id) => Self::Node(NodeMessage::NoRoom(id)),
            MachineMessage::BeyondShare(workers) => Self::Node(NodeMessage::BeyondShare(workers)),
            MachineMessage::Ready(id, stats) => Self::Node(NodeMessage::Ready(id, stats)),
            MachineMessage::Restarting(id) => Self::Node(NodeMessage::Restarting(id)),
            MachineMessage::InitFailed(id, failure) => {
                Self::Node(NodeMessage::InitFailed(id, failure))
            }
            MachineMessage::Started(id, batch) => Self::Node(NodeMessage::Started(id, batch)),
            MachineMessage::Finished(id, report) => Self::Node(NodeMessage::Finished(id, report)),
            MachineMessage::Overrun(id, failure) => Self::Node(NodeMessage::Overrun(id, failure)),
            MachineMessage::Exited(id, exit) => Self::Node(NodeMessage::Exited(id, exit)),
            MachineMessage::GpuFree(id) => Self::Node(NodeMessage::GpuFree(id)),
            MachineMessage::Committed(ids) => Self::Job(JobMessage::Committed(ids)),
            MachineMessage::Rejected(id, failure) => Self::Job(JobMessage::Rejected(id, failure)),
            MachineMessage::CommitFailed(text) => Self::Job(JobMessage::CommitFailed(text)),
            MachineMessage::NoSpace(text) => Self::Job(JobMessage::NoSpace(text)),
            MachineMessage::Cancel { reason, at_once } => {
                Self::Job(JobMessage::Cancel { reason, at_once })
            }
            MachineMessage::Inferring(id, words) => Self::Node(NodeMessage::Inferring(id, words)),
            MachineMessage::Tick => Self::Both,
        }
    }
}
