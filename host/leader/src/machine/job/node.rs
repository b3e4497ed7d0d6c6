//! What the state machine knows about a node.

use super::queue::PendingMiniBatch;
use crate::model::{NodeId, WorkerId};
use crate::protocol::WorkersStanding;
use std::time::Duration;

/// A node that takes part in the job.
#[derive(Debug, Default)]
pub(super) struct JobNode {
    /// The node's last reported state. Mini-batches granted since are already subtracted from its idle
    /// workers.
    pub(super) standing: WorkersStanding,
    /// When the last of its workers that are inside `init` entered it.
    pub(super) last_start: Option<Duration>,
    /// How many orders that grant attempts it was sent.
    pub(super) grants: u64,
    /// Whether it was notified that a worker of another node is past `init`.
    pub(super) reported_past_init: bool,
}

impl JobNode {
    /// Whether it has no worker.
    pub(super) fn is_empty(&self) -> bool {
        self.standing.workers() == 0
    }

    /// Whether it knows that the job is ending, and all its workers have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.standing.is_ending && self.is_empty()
    }

    /// Whether it has reported its state since its last grant.
    pub(super) fn has_answered(&self) -> bool {
        self.standing.grants == self.grants
    }
}

/// An attempt that was granted to a node.
#[derive(Debug)]
pub(super) struct GrantedAttempt {
    pub(super) node: NodeId,
    /// The worker that is inside `run` with it.
    pub(super) runs_on: Option<WorkerId>,
    pub(super) pending: PendingMiniBatch,
}
