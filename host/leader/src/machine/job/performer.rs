//! Who made an attempt, and what it took.

use crate::model::{NodeId, WorkerId};
use std::time::Duration;

/// Who made an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Performer {
    pub(super) node: NodeId,
    pub(super) worker: WorkerId,
}

/// What an attempt took that ended with its worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// Since it began.
    pub(super) age: Duration,
    /// Inside `run`, if it came to that.
    pub(super) run: Option<Duration>,
    /// Processor time, in seconds.
    pub(super) process_seconds: f64,
}
