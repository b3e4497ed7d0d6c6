//! The messages and outputs of a job's state machine, and its records of attempts.

use super::performer::{AttemptCost, AttemptWorker};
use super::queue::PendingMiniBatch;
use crate::event::EventKind;
use crate::model::{
    AttemptReceipt, AttemptReport, EndedBy, Failure, JobResult, JobStatus, MiniBatch, MiniBatchId,
    NodeId, WorkerId,
};
use crate::protocol::{NodeNews, Order};
use std::time::Duration;

/// What happened to a job.
#[derive(Clone, Debug)]
pub enum JobMessage {
    /// More mini-batches were planned.
    Planned(Vec<MiniBatch>),
    /// How much of the inputs is planned, in thousandths. This includes the mini-batches of the next message.
    PlanShare(u16),
    /// The plan is complete.
    PlanFinished,
    /// The inputs cannot be cut into mini-batches.
    PlanFailed(String),
    /// An object that mini-batches will need, or a part of it, has arrived on this machine.
    Arrived,
    /// How the columns of an input are interpreted.
    Columns(String),
    /// A notice for the user.
    Notice(String),
    /// These mini-batches are in the journal and in the output.
    Committed(Vec<MiniBatchId>),
    /// This mini-batch cannot be committed, for a reason in its own rows or files.
    Rejected(MiniBatchId, Failure),
    /// Nothing can be committed from now on.
    CommitFailed(String),
    /// The same, because another process leads the job, or is about to.
    Replaced(String),
    /// The disk has no room for what mini-batches need. Pending commits still complete.
    NoSpace(String),
    /// The user wants the job to end.
    Cancel {
        /// Why, as text for the user.
        reason: String,
        /// Whether workers are killed immediately.
        at_once: bool,
    },
    /// A worker has ended normally, after `shutdown`.
    ShutDown,
    /// A node takes part from now on, with at most this many workers. A node that was lost and returns gets a new
    /// id.
    NodeJoined(NodeId, u32),
    /// A node computes models with these backends, and not with those of the job.
    MixedBackends(NodeId, String),
    /// A node is lost, and its later messages are ignored. Its mini-batches are granted again.
    NodeLost(NodeId),
    /// A node reports.
    Node(NodeId, NodeNews),
    /// Time has passed.
    Tick,
}

/// What the leader must do for a job.
#[derive(Clone, Debug)]
pub enum JobAction {
    /// Put the receipt of an attempt into the journal that is not the last one of its mini-batch, or whose end does not
    /// count.
    Receipt(Box<AttemptReceipt>),
    /// Put the rows and files of an ended mini-batch into the output, and its end into the journal.
    Commit(SettledMiniBatch),
    /// Emit an event.
    Emit(EventKind),
    /// The job is over. Always the last action.
    Finish(Box<JobResult>),
}

/// An output of a job's state machine.
#[derive(Clone, Debug)]
pub enum JobOutput {
    /// An action for the leader.
    Do(JobAction),
    /// An order for a node.
    Order(NodeId, Order),
}

impl JobOutput {
    /// Whether the node's answer to this order may lead to further decisions.
    pub fn wants_answer(&self) -> bool {
        match self {
            Self::Order(_, order) => order.is_grant() || matches!(order, Order::End(_)),
            Self::Do(_) => false,
        }
    }
}

/// The end of a mini-batch, for the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct SettledMiniBatch {
    /// The worker of the last attempt.
    pub worker: WorkerId,
    /// The report of that attempt.
    pub report: Box<AttemptReport>,
    /// The receipt of that attempt, if it ran.
    pub receipt: Option<Box<AttemptReceipt>>,
}

/// An ended attempt that waits for the journal.
#[derive(Clone, Debug)]
pub(super) struct Committing {
    pub(super) pending: PendingMiniBatch,
    pub(super) by: AttemptWorker,
    pub(super) report: Box<AttemptReport>,
    pub(super) cost: AttemptCost,
}

/// The decided end of a job, and when the remaining workers are killed.
#[derive(Clone, Debug)]
pub(super) struct JobEnding {
    pub(super) status: JobStatus,
    pub(super) by: Option<EndedBy>,
    pub(super) reason: String,
    /// When workers that are still running are killed. `None` once the kill was ordered.
    pub(super) kill_at: Option<Duration>,
}
