//! The input for settling a job that resumes.

use super::item::FinishedMiniBatch;
use super::target::CommitTarget;
use crate::model::MiniBatchId;
use std::collections::HashSet;

/// What is to be settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling<'a> {
    pub(super) target: &'a CommitTarget,
    /// In the order of the output.
    pub(super) items: &'a [FinishedMiniBatch],
    pub(super) retry_failed: bool,
    /// Mini-batches to try again if they failed, because the user may have repaired their files.
    pub(super) again: &'a HashSet<MiniBatchId>,
}

impl Settling<'_> {
    /// The mini-batches that failed and are tried again.
    pub(super) fn failed(&self) -> impl Iterator<Item = MiniBatchId> {
        let failed = self.items.iter().filter(|item| item.failed).map(|item| MiniBatchId(item.id));
        failed.filter(|id| self.retry_failed || self.again.contains(id))
    }
}
