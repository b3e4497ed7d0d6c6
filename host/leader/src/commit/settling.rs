//! What is settled of a job that is taken up.

use super::item::Item;
use super::target::CommitTarget;
use crate::model::MiniBatchId;
use std::collections::HashSet;

/// What there is to settle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling<'a> {
    pub(super) target: &'a CommitTarget,
    /// In the order of the output.
    pub(super) items: &'a [Item],
    pub(super) retry_failed: bool,
    /// Those that are tried again if they failed, as their files may have been mended.
    pub(super) again: &'a HashSet<MiniBatchId>,
}

impl Settling<'_> {
    /// Mini-batches that failed and are tried again.
    pub(super) fn failed(&self) -> impl Iterator<Item = MiniBatchId> {
        let failed = self.items.iter().filter(|item| item.failed).map(|item| MiniBatchId(item.id));
        failed.filter(|id| self.retry_failed || self.again.contains(id))
    }
}
