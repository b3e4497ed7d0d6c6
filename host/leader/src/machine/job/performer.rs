//! The worker that made an attempt, and what the attempt cost.

use crate::model::{AttemptUsage, NodeId, ReceiptEnd, WorkerId};
use std::time::Duration;

/// The worker that made an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptWorker {
    pub(super) node: NodeId,
    pub(super) worker: WorkerId,
}

/// What is known of an attempt whose worker is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostAttempt {
    /// The time inside `run`. `None` if `run` had not begun.
    pub(super) run: Option<Duration>,
    /// Processor time, in seconds.
    pub(super) process_seconds: f64,
    pub(super) cost: AttemptCost,
}

/// When an attempt began and ended, and what it used, for its receipt.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptCost {
    pub(super) started: Duration,
    pub(super) ended: Duration,
    pub(super) usage: AttemptUsage,
    /// How the attempt ended, if its report does not say it.
    pub(super) end: Option<ReceiptEnd>,
    /// Whether a worker had the attempt. If not, it gets no receipt.
    pub(super) has_run: bool,
}
