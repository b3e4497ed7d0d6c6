//! The content of the journal.

use crate::model::{
    AttemptReceipt, FailureKind, ItemCounts, MiniBatchId, ReceiptRun, Segment, WorkerId,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The job that a journal belongs to: what must not change if the job is to resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobIdentity {
    /// The job's name.
    pub name: String,
    /// The id of the run that created the journal, as in the job's state file.
    pub id: String,
    /// SHA-256 of the entry script, in hex.
    pub entry_script_digest: String,
    /// The names and values of all settings that decide how the inputs are cut into mini-batches, and which
    /// rows these return. [`Journal::job`](super::Journal::job) returns them sorted by name.
    pub settings: Vec<(String, String)>,
    /// When the job was begun.
    pub created: Timestamp,
}

/// The end of one mini-batch, to be committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The stamp of the mini-batch's descriptor and files. If the job resumes, the stamp shows whether the
    /// mini-batch is still the same.
    pub stamp: u64,
    /// Attempts made, the last one included.
    pub attempts: u32,
    /// The worker of the last attempt, if there was one.
    pub worker: Option<WorkerId>,
    /// The mini-batch's items.
    pub items: ItemCounts,
    /// How the mini-batch ended.
    pub end: MiniBatchEnd,
}

/// The ways in which a mini-batch ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MiniBatchEnd {
    /// An attempt succeeded.
    Succeeded {
        /// The attempt's rows, in the part file of [`JournalEntry::worker`].
        segment: Segment,
        /// Whether `run` returned fewer rows than it received items (rule W4 in
        /// docs/parallel-run-step.md).
        is_short: bool,
        /// Whether the attempt left files to publish.
        has_files: bool,
    },
    /// Every attempt failed.
    Failed {
        /// The kind of the last failure.
        kind: FailureKind,
        /// The text of the last failure.
        message: String,
    },
}

impl MiniBatchEnd {
    /// The rows, if there are any.
    pub fn rows(&self) -> Option<Segment> {
        match self {
            Self::Succeeded { segment, .. } if segment.length > 0 => Some(*segment),
            _ => None,
        }
    }

    /// Whether there are files to publish.
    pub fn has_files(&self) -> bool {
        matches!(self, Self::Succeeded { has_files: true, .. })
    }
}

/// A file that is, or is about to be, in the output folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The mini-batch that wrote it. `None` for a file of `init` or `shutdown`.
    pub mini_batch: Option<MiniBatchId>,
    /// The folder that the file comes from, relative to the job directory.
    pub source: String,
    /// The file's path within that folder, and within the output folder.
    pub path: String,
    /// The offset of the first byte in the published file. 0 unless the file is appended to another one.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
}

/// Receipts of one run, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptBatch {
    /// The run.
    pub run: ReceiptRun,
    /// The receipts.
    pub receipts: Vec<AttemptReceipt>,
    /// The hash of the last one, in hexadecimal. Empty until the journal has computed it.
    pub head: String,
}

/// The changes that are written in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalChanges {
    /// Mini-batches to remove, together with their files, because they run again. They are removed before the
    /// other changes are made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<MiniBatchId>,
    /// Whether `files` replaces all file entries.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaces_files: bool,
    /// Whether a recorded job end is removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reopened: bool,
    /// Ends of mini-batches, in commit order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<JournalEntry>,
    /// The mini-batches' files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEntry>,
    /// Notes to write. A note without a value is removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<(String, Option<String>)>,
    /// Receipts of attempts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<ReceiptBatch>,
}

impl JournalChanges {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The order in which entries are read. The first two are orders of rows in an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOrder {
    /// The order in which they were committed.
    Commit,
    /// The order of their mini-batches' ids.
    Id,
    /// By worker, then by the position of their rows in the worker's part file. `output_offset` is
    /// meaningless in this order.
    PartFile,
}

/// An entry that is in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// What was committed.
    pub entry: JournalEntry,
    /// The offset of the entry's rows in the output file, not counting the header line. It is the sum of the
    /// lengths of all earlier entries in the requested order. For an entry without rows, the offset that its
    /// rows would have.
    pub output_offset: u64,
}

/// Totals of everything committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommittedCounts {
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Mini-batches that failed for good.
    pub failed: u64,
    /// Items of all these mini-batches.
    pub items: ItemCounts,
    /// Lines in the output file, without the header line.
    pub rows: u64,
    /// Bytes in the output file, without the header line, once everything committed is appended.
    pub output_length: u64,
}

impl CommittedCounts {
    pub(super) fn add(&mut self, entry: &JournalEntry) {
        self.items += entry.items;
        match &entry.end {
            MiniBatchEnd::Succeeded { segment, .. } => {
                self.succeeded += 1;
                self.rows += segment.rows;
                self.output_length += segment.length;
            }
            MiniBatchEnd::Failed { .. } => self.failed += 1,
        }
    }
}
