//! The input for settling a job that resumes. Settling makes the output and the journal consistent.

use super::item::FinishedMiniBatch;
use super::target::CommitTarget;
use crate::model::MiniBatchId;
use std::collections::HashSet;

/// The job to settle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling<'a> {
    pub(super) target: &'a CommitTarget,
    /// The finished mini-batches, in the order of the output.
    pub(super) items: &'a [FinishedMiniBatch],
    /// Whether all mini-batches that failed for good are tried again.
    pub(super) retry_failed: bool,
    /// Mini-batches whose files could not be read. If they failed, they are tried again, because the user may
    /// have repaired the files.
    pub(super) unreadable: &'a HashSet<MiniBatchId>,
    /// Mini-batches whose files are lost.
    pub(super) lost: &'a HashSet<MiniBatchId>,
}

impl Settling<'_> {
    /// The mini-batches that run again, whatever is found of their rows.
    pub(super) fn run_again(&self) -> impl Iterator<Item = MiniBatchId> {
        let failed =
            self.items.iter().filter(|item| item.has_failed).map(|item| MiniBatchId(item.id));
        let failed = failed.filter(|id| self.retry_failed || self.unreadable.contains(id));
        failed.chain(self.lost.iter().copied())
    }
}
