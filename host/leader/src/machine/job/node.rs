//! What the job's machine remembers of a node.

use super::queue::Pending;
use crate::model::{NodeId, WorkerId};
use crate::protocol::Standing;
use std::time::Duration;

/// A node that takes part.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// As it said last, but for what it was granted since on workers without an attempt.
    pub(super) standing: Standing,
    /// Since when the last of its workers that are inside `init` has been there.
    pub(super) last_start: Option<Duration>,
    /// Orders to it that granted attempts.
    pub(super) grants: u64,
    /// Whether it was told that a worker of another node is past its `init`.
    pub(super) told_past_init: bool,
}

impl Node {
    /// Whether it has no worker.
    pub(super) fn is_empty(&self) -> bool {
        self.standing.workers() == 0
    }

    /// Whether it knows that the job ends, and all its workers have.
    pub(super) fn has_ended(&self) -> bool {
        self.standing.is_ending && self.is_empty()
    }

    /// Whether it has said how it stands since it was granted something.
    pub(super) fn has_answered(&self) -> bool {
        self.standing.grants == self.grants
    }
}

/// An attempt that a node has.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) node: NodeId,
    /// Who is inside `run` with it.
    pub(super) runs_on: Option<WorkerId>,
    pub(super) pending: Pending,
}
