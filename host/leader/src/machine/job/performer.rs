//! The worker that made an attempt, and what the attempt cost.

use crate::model::{NodeId, WorkerId};
use std::time::Duration;

/// The worker that made an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptWorker {
    pub(super) node: NodeId,
    pub(super) worker: WorkerId,
}

/// The cost of an attempt whose worker is gone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostAttempt {
    /// The time since the attempt began.
    pub(super) age: Duration,
    /// The time inside `run`. `None` if `run` had not begun.
    pub(super) run: Option<Duration>,
    /// Processor time, in seconds.
    pub(super) process_seconds: f64,
}
