//! A mini-batch that an earlier run of a resumed job has finished.

use crate::model::{ItemCounts, Segment, WorkerId};

/// A finished mini-batch, with the fields that are needed to resume.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedMiniBatch {
    pub(super) id: u64,
    pub(super) attempts: u32,
    pub(super) worker: Option<WorkerId>,
    /// The mini-batch's rows, if there are any.
    pub(super) rows: Option<Segment>,
    /// The number of rows that the mini-batch returned.
    pub(super) lines: u64,
    pub(super) items: ItemCounts,
    pub(super) is_short: bool,
    pub(super) has_failed: bool,
    pub(super) has_files: bool,
}
