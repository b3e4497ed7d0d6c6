//! What the job's state machine knows about a node.

use crate::protocol::WorkersStanding;
use std::time::Duration;

/// A request to a node is repeated after this time, if the node has not reported its state since. Without this pause, a
/// silent node would get the request again with each message of any other node.
pub(super) const REPEAT_AFTER: Duration = Duration::from_millis(500);

/// A node that takes part in the job.
#[derive(Debug, Default)]
pub(super) struct JobNode {
    /// The most workers that run on the node at the same time.
    pub(super) workers: u32,
    /// The state of the node's workers, as last reported. Mini-batches that were granted since then are
    /// already subtracted from the number of idle workers.
    pub(super) standing: WorkersStanding,
    /// When a worker last entered `init`. Only workers that are still inside `init` count.
    pub(super) last_start: Option<Duration>,
    /// The last request for this many workers, and when it was sent. `None` if the node has reported its state since.
    pub(super) wanted: Option<(u32, Duration)>,
    /// When the idle workers were asked to end. `None` if the node has reported its state since.
    pub(super) retired: Option<Duration>,
    /// How many orders that grant attempts were sent to this node.
    pub(super) grants: u64,
    /// Whether this node has received the notice that a worker of another node is past `init`.
    pub(super) reported_past_init: bool,
}

impl JobNode {
    /// How many of its workers can get an attempt now.
    pub(super) fn free_workers(&self) -> u32 {
        if self.standing.is_full { 0 } else { self.standing.idle }
    }

    /// How many of its live workers have attempts, or can get one. Those of a node whose disk is full cannot.
    pub(super) fn useful_workers(&self) -> u32 {
        let WorkersStanding { starting, idle, is_full, .. } = self.standing;
        let useless = if is_full { starting + idle } else { 0 };
        self.standing.live() - useless
    }

    /// Whether the node runs something, or can run something. It cannot if its disk is full.
    pub(super) fn can_make_progress(&self) -> bool {
        let WorkersStanding { loading, running, closing, is_full, is_ending, .. } = self.standing;
        !is_ending && (!is_full || loading + running + closing > 0)
    }

    /// Whether the node has no worker.
    pub(super) fn is_empty(&self) -> bool {
        self.standing.workers() == 0
    }

    /// Whether the node knows that the job is ending, and all its workers have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.standing.is_ending && self.is_empty()
    }

    /// Whether the node has reported its state since the last order that grants attempts.
    pub(super) fn has_answered(&self) -> bool {
        self.standing.grants == self.grants
    }
}
