//! The worker that made an attempt, and what the attempt cost.

use crate::model::{NodeId, WorkerId};
use std::time::Duration;

/// The worker that made an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptWorker {
    pub(super) node: NodeId,
    pub(super) worker: WorkerId,
}

/// The cost of an attempt that ended with its worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostAttempt {
    /// The time since it began.
    pub(super) age: Duration,
    /// The time inside `run`, if it got there.
    pub(super) run: Option<Duration>,
    /// CPU time, in seconds.
    pub(super) process_seconds: f64,
}
