//! What a resumed job has already done.

use crate::model::{ItemCounts, Segment, WorkerId};

/// A finished mini-batch, with the fields that are needed here.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedMiniBatch {
    pub(super) id: u64,
    pub(super) attempts: u32,
    pub(super) worker: Option<WorkerId>,
    /// Its rows, if there are any.
    pub(super) rows: Option<Segment>,
    /// The number of lines it returned, and its items.
    pub(super) lines: u64,
    pub(super) items: ItemCounts,
    pub(super) is_short: bool,
    pub(super) failed: bool,
    pub(super) has_files: bool,
}
