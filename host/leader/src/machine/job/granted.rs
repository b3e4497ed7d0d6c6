//! Mini-batches that were granted to nodes.

use super::queue::PendingMiniBatch;
use crate::model::{NodeId, WorkerId};
use std::time::Duration;

/// A mini-batch that was granted. It has one attempt, or two attempts on different nodes: twins.
#[derive(Debug)]
pub(super) struct GrantedMiniBatch {
    pub(super) pending: PendingMiniBatch,
    attempts: [Option<GrantedAttempt>; 2],
    /// Whether an attempt has failed while its twin ran.
    has_failed: bool,
}

/// An attempt that was granted to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedAttempt {
    pub(super) node: NodeId,
    /// The worker that is inside `run` for this attempt. `None` before `run` begins.
    pub(super) runs_on: Option<WorkerId>,
    /// When `run` began. Before that, when the attempt was granted.
    pub(super) since: Duration,
    /// When the attempt was granted. `None` if an earlier leader did so.
    pub(super) granted: Option<Duration>,
    /// Whether another worker has begun the attempt before, and has its receipt.
    pub(super) has_changed_worker: bool,
}

impl GrantedAttempt {
    fn new(node: NodeId, now: Duration) -> Self {
        Self { node, runs_on: None, since: now, granted: Some(now), has_changed_worker: false }
    }
}

impl GrantedMiniBatch {
    pub(super) fn new(pending: PendingMiniBatch, node: NodeId, now: Duration) -> Self {
        let attempts = [Some(GrantedAttempt::new(node, now)), None];
        Self { pending, attempts, has_failed: false }
    }

    /// The attempt of this node.
    pub(super) fn attempt_on(&mut self, node: NodeId) -> Option<&mut GrantedAttempt> {
        self.attempts.iter_mut().flatten().find(|attempt| attempt.node == node)
    }

    /// Removes and returns the attempt of this node.
    pub(super) fn remove(&mut self, node: NodeId) -> Option<GrantedAttempt> {
        let is_on_node = |attempt: &mut GrantedAttempt| attempt.node == node;
        self.attempts.iter_mut().find_map(|attempt| attempt.take_if(is_on_node))
    }

    /// Removes and returns the attempt that is left.
    pub(super) fn remove_last(&mut self) -> Option<GrantedAttempt> {
        self.attempts.iter_mut().find_map(Option::take)
    }

    /// Whether no attempt is left.
    pub(super) fn is_over(&self) -> bool {
        self.attempts.iter().all(Option::is_none)
    }

    /// Records that an attempt has failed, and that the failure does not count, because the twin continues.
    pub(super) fn note_failure(&mut self) {
        self.has_failed = true;
    }

    /// The only attempt, if it may get a twin. If an attempt has failed, the mini-batch gets no other twin until it is
    /// tried again: each failure must count in the end.
    pub(super) fn without_twin(&self) -> Option<&GrantedAttempt> {
        let mut attempts = self.attempts.iter().flatten();
        let only = attempts.next().filter(|_| !self.has_failed)?;
        attempts.next().is_none().then_some(only)
    }

    /// Adds a twin on another node.
    pub(super) fn add_twin(&mut self, node: NodeId, now: Duration) {
        if let Some(free) = self.attempts.iter_mut().find(|attempt| attempt.is_none()) {
            *free = Some(GrantedAttempt::new(node, now));
        }
    }
}
