//! What goes into a job's machine, what comes out, and what it remembers of attempts.

use super::performer::Performer;
use super::queue::Pending;
use crate::event::EventKind;
use crate::model::{
    AttemptReport, EndedBy, Failure, JobResult, JobStatus, MiniBatch, MiniBatchId, NodeId, WorkerId,
};
use crate::protocol::{News, Order};
use std::time::Duration;

/// What happened to a job.
#[derive(Clone, Debug)]
pub enum JobMessage {
    /// More mini-batches.
    Planned(Vec<MiniBatch>),
    /// How much of the inputs is planned with the mini-batches that follow, in thousandths.
    PlanShare(u16),
    /// No more will come.
    PlanFinished,
    /// The inputs cannot be cut.
    PlanFailed(String),
    /// Something of what mini-batches will need has come to this machine.
    Arrived,
    /// What the columns of an input are taken to be.
    Columns(String),
    /// Something to tell the user.
    Notice(String),
    /// These are in the journal and in the output.
    Committed(Vec<MiniBatchId>),
    /// This one cannot be committed, through its own fault.
    Rejected(MiniBatchId, Failure),
    /// Nothing can be committed any more.
    CommitFailed(String),
    /// The disk has no room for what mini-batches need. What is being committed still is.
    NoSpace(String),
    /// Somebody wants the job to end.
    Cancel {
        /// Why, for people.
        reason: String,
        /// Without waiting for running mini-batches.
        at_once: bool,
    },
    /// A node takes part from now on. One that was lost and comes back has another number.
    NodeJoined(NodeId),
    /// A node is gone, and nothing that it still says counts. What it had is granted anew.
    NodeLost(NodeId),
    /// A node reports.
    Node(NodeId, News),
    /// Time has passed.
    Tick,
}

/// What to do for a job.
#[derive(Clone, Debug)]
pub enum JobAction {
    /// Journal the end of a mini-batch, then put its rows and files into the output.
    Commit(Settled),
    /// Tell the world.
    Emit(EventKind),
    /// The job is over. Always the last action.
    Finish(Box<JobResult>),
}

/// What comes out of a job's machine, in order.
#[derive(Clone, Debug)]
pub enum JobOutput {
    /// To be done by the leader.
    Do(JobAction),
    /// To be done by a node.
    Order(NodeId, Order),
}

impl JobOutput {
    /// Whether more may be decided once the node has said how it stands after it.
    pub fn wants_answer(&self) -> bool {
        match self {
            Self::Order(_, order) => order.is_grant() || matches!(order, Order::End(_)),
            Self::Do(_) => false,
        }
    }
}

/// A mini-batch that ended, for the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// Whose attempt was the last.
    pub worker: WorkerId,
    /// What came of that attempt.
    pub report: Box<AttemptReport>,
}

/// An ended attempt that waits for the journal.
#[derive(Clone, Debug)]
pub(super) struct Committing {
    pub(super) pending: Pending,
    pub(super) by: Performer,
    pub(super) report: Box<AttemptReport>,
    pub(super) started: Duration,
}

/// Why no new mini-batches are handed out, and since when.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) status: JobStatus,
    pub(super) by: Option<EndedBy>,
    pub(super) reason: String,
    /// When workers that still run are killed; `None` once that is ordered.
    pub(super) kill_at: Option<Duration>,
}
