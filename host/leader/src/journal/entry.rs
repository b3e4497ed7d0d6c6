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
    /// Names and values of all settings that decide what mini-batches there are and what they
    /// yield. [`Journal::job`](super::Journal::job) gives them sorted by name.
    pub settings: Vec<(String, String)>,
    /// When the job was begun.
    pub created: Timestamp,
}

/// The end of one mini-batch, to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// Of its descriptor and files: whether it is the same mini-batch when the job is taken up.
    pub stamp: u64,
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
        /// Whether they are fewer than the items that `run` was given (prs-semantics W4).
        is_short: bool,
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

impl End {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The mini-batch that wrote it; none for a file of `init` or `shutdown`.
    pub mini_batch: Option<MiniBatchId>,
    /// The folder it comes from, below the job directory.
    pub source: String,
    /// Where it is in that folder and in the output folder.
    pub path: String,
    /// The first byte in the published file; 0 unless it is put behind what others wrote.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// What is written in one transaction: all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Mini-batches to take out, with their files: they run again. This comes first.
    pub removed: Vec<MiniBatchId>,
    /// Whether all that is known of files is replaced by `files`.
    pub files_anew: bool,
    /// Whether the job's end, if it is noted, is forgotten.
    pub reopened: bool,
    /// Ends of mini-batches, in this order of the output file.
    pub entries: Vec<Entry>,
    /// Their files.
    pub files: Vec<FileEntry>,
    /// Notes to make, or to remove where there is no value.
    pub notes: Vec<(String, Option<String>)>,
}

impl Changes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The order in which entries are wanted; the first two are orders of rows in an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they were committed.
    Commit,
    /// As their mini-batches are numbered.
    Id,
    /// By worker, and as their rows lie in its part file. Then `output_offset` says nothing.
    Place,
}

/// An entry that is in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// What was committed.
    pub entry: Entry,
    /// Where its rows begin in the output file, in bytes behind the header line; for a failure,
    /// where they would. It is the sum of the lengths of all that comes before in the order asked
    /// for.
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
    /// Lines in the output file, the header line not counted.
    pub rows: u64,
    /// Bytes in the output file behind the header line, once everything committed is appended.
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
