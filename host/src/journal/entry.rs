//! What the journal remembers.

use crate::model::{FailureKind, ItemCounts, MiniBatchId, Segment, WorkerId};
use jiff::Timestamp;

/// Which job a journal belongs to: what must be the same for a job to be taken up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobIdentity {
    /// The job's name.
    pub name: String,
    /// The id of this execution, as in the job's state file.
    pub id: String,
    /// SHA-256 of the entry script, in hex.
    pub entry_script_digest: String,
    /// A digest of the settings that decide what mini-batches there are and what they yield.
    pub spec_fingerprint: String,
    /// When the job was begun.
    pub created: Timestamp,
}

/// The end of one mini-batch, to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// Attempts made, the last one included.
    pub attempts: u32,
    /// The worker of the last attempt, if there was one.
    pub worker: Option<WorkerId>,
    /// Its items.
    pub items: ItemCounts,
    /// How it ended.
    pub end: End,
}

/// The ways in which a mini-batch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// An attempt succeeded.
    Succeeded {
        /// Its rows, in the part file of [`Entry::worker`].
        segment: Segment,
        /// Whether it left files to publish.
        has_files: bool,
    },
    /// Every attempt failed.
    Failed {
        /// The kind of the last failure.
        kind: FailureKind,
        /// The last failure, for people.
        message: String,
    },
}

/// An entry that is in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// What was committed.
    pub entry: Entry,
    /// Where its rows begin in the output file, in bytes; for a failure, where they would.
    pub output_offset: u64,
}

/// Sums over all that is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Mini-batches that failed for good.
    pub failed: u64,
    /// Items of both.
    pub items: ItemCounts,
    /// Lines in the output file.
    pub rows: u64,
    /// Bytes in the output file, once everything committed is appended.
    pub output_length: u64,
}

impl Counts {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.items += entry.items;
        match &entry.end {
            End::Succeeded { segment, .. } => {
                self.succeeded += 1;
                self.rows += segment.rows;
                self.output_length += segment.length;
            }
            End::Failed { .. } => self.failed += 1,
        }
    }
}
