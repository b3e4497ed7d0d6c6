//! The store: everything that the committer writes to.

use super::files::{FilesState, GroupNames};
use super::header::HeaderColumns;
use super::rows::RowsOutput;
use super::successor::SuccessorWatch;
use super::target::CommitTarget;
use super::worker_parts::Parts;
use crate::journal::{FileEntry, Journal, JournalEntry};
use crate::model::{AttemptReceipt, WorkerId};
use std::path::PathBuf;

/// Everything that the committer writes to.
#[derive(Debug)]
pub(super) struct CommitState {
    pub(super) target: CommitTarget,
    pub(super) journal: Journal,
    /// The output file. `None` if rows are only counted, or stay in one file per worker.
    pub(super) rows: Option<RowsOutput>,
    /// The beginning of the output, if the journal has it.
    pub(super) header: Option<HeaderColumns>,
    pub(super) parts: Parts,
    pub(super) files: FilesState,
    /// What will be committed next.
    pub(super) group: CommitGroup,
    pub(super) successor: SuccessorWatch,
}

/// The mini-batches, files and notes that are committed together.
#[derive(Debug, Default)]
pub(super) struct CommitGroup {
    pub(super) entries: Vec<JournalEntry>,
    /// How many entries already have their rows in the output.
    pub(super) copied: usize,
    pub(super) files: Vec<FileEntry>,
    /// The folders that contain the files.
    pub(super) staged: Vec<PathBuf>,
    pub(super) names: GroupNames,
    /// The beginning of the output, if this group has a new one.
    pub(super) header: Option<HeaderColumns>,
    /// Workers that ended normally, if they left files.
    pub(super) done: Vec<WorkerId>,
    pub(super) notes: Vec<(String, Option<String>)>,
    pub(super) receipts: Vec<AttemptReceipt>,
}

impl CommitGroup {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.done.is_empty()
            && self.notes.is_empty()
            && self.receipts.is_empty()
    }
}
