//! The results of an attempt and of a job.

use super::bounded_vec::few;
use super::{Failure, FailureKind, InferenceStats, MiniBatchId, WallState};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Items of a mini-batch, or of a job. `succeeded + failed = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// All items.
    pub total: u64,
    /// Items for which a row was returned.
    pub succeeded: u64,
    /// The rest.
    pub failed: u64,
}

impl ItemCounts {
    /// The counts if `returned` rows came back for `total` items. With more rows than items, all items count
    /// as succeeded (docs/parallel-run-step.md E8).
    pub fn from_returned(total: u64, returned: u64) -> Self {
        let succeeded = returned.min(total);
        Self { total, succeeded, failed: total - succeeded }
    }
}

impl std::ops::AddAssign for ItemCounts {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
    }
}

/// The rows of one attempt in a worker's part file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// First byte in the part file.
    pub offset: u64,
    /// Bytes. May be zero: the attempt wrote no rows.
    pub length: u64,
    /// CRC-32 of the bytes.
    pub checksum: u32,
    /// Lines in the segment.
    pub rows: u64,
}

/// One item that failed while its mini-batch went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedItem {
    /// The item: a file's path as the guest sees it, or the file of a table.
    pub item: String,
    /// The line in the file, from 1, for a record of a table.
    pub line: Option<u64>,
    /// The row in a file without lines, from 1. Or the row in the mini-batch's table, if the line is not
    /// known.
    pub row: Option<u64>,
    /// Why it failed.
    pub reason: String,
    /// The kind of the failure: `bad_input` for an item that could not be read, `script_error` for one that
    /// `run` gave up.
    #[serde(default = "by_script")]
    pub kind: FailureKind,
}

/// The kind of items from reports that predate this field.
fn by_script() -> FailureKind {
    FailureKind::ScriptError
}

/// Records of JSON lines with keys that do not belong to any column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownKeys {
    /// The number of such records.
    pub records: u64,
    /// Some of the keys, at most [`UnknownKeys::NAMES`].
    #[serde(deserialize_with = "few::<_, _, { UnknownKeys::NAMES }>")]
    pub names: Vec<String>,
    /// The file of the first such record.
    pub item: String,
    /// The line of that record, from 1.
    pub line: u64,
}

impl UnknownKeys {
    /// The maximum number of keys that are named.
    pub const NAMES: usize = 5;
    /// Maximum length in bytes of a key's name, and of a file's name.
    const NAME: usize = 1 << 10;
    const ITEM: usize = 64 << 10;

    /// Whether the numbers are possible for so many records, and the names are short enough for the leader to
    /// keep.
    pub fn is_plausible(&self, records: u64) -> bool {
        let name_fits = |name: &String| name.len() <= Self::NAME;
        self.records <= records && self.item.len() <= Self::ITEM && self.names.iter().all(name_fits)
    }

    /// Adds the counts of a later attempt.
    pub fn add(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        for name in &other.names {
            if self.names.len() < Self::NAMES && !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
    }
}

/// The resources that one call into the guest used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallStats {
    /// Wall time of the call.
    pub seconds: f64,
    /// Fuel used, if the job measures it.
    pub fuel: Option<u64>,
}

/// The top of the output file: the columns of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputHeader {
    /// The first line, without its line end. For an output with types: each column on a line of its own. The
    /// text contains everything that must be the same in every attempt.
    pub text: String,
    /// The bytes to write, if they are not just the text and a line end. Null in events.
    #[serde(default, with = "binary_only")]
    pub bytes: Option<Vec<u8>>,
    /// For an output with types, in which a column holds only nulls, so that other tables determine its type:
    /// these columns, as a separate stream without rows. Null in events.
    #[serde(default, with = "binary_only")]
    pub open_columns: Option<Vec<u8>>,
}

impl OutputHeader {
    /// The first line with its end. `None` if it is empty, or if other bytes are to be written.
    pub fn line(&self) -> Option<String> {
        let line = self.text.strip_suffix('\n').unwrap_or(&self.text);
        (self.bytes.is_none() && !line.is_empty()).then(|| format!("{line}\n"))
    }

    /// The bytes to write. `None` if there are none.
    pub fn written(&self) -> Option<Vec<u8>> {
        self.bytes.clone().or_else(|| self.line().map(String::into_bytes))
    }
}

impl From<&str> for OutputHeader {
    fn from(line: &str) -> Self {
        Self { text: line.to_owned(), bytes: None, open_columns: None }
    }
}

/// Bytes that processes send to each other. They are left out of formats for people.
mod binary_only {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { to.serialize_none() } else { bytes.serialize(to) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Option::deserialize(from)
    }
}

/// Statistics that are written as null in formats for people if all of them are zero.
mod null_if_none {
    use super::InferenceStats;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        stats: &InferenceStats,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let is_left_out = to.is_human_readable() && *stats == InferenceStats::default();
        if is_left_out { to.serialize_none() } else { stats.serialize(to) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<InferenceStats, D::Error> {
        if from.is_human_readable() {
            Option::deserialize(from).map(Option::unwrap_or_default)
        } else {
            InferenceStats::deserialize(from)
        }
    }
}

/// A worker's report of one attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Identifies the mini-batch and the content of its files: a hash of its planned
    /// [`stamp`](super::MiniBatch::stamp) and, for files, of the size and time of each, as the worker found
    /// them. It is the planned stamp alone if no worker could read the files. A job is resumed only if the
    /// mini-batches that are done would be the same today.
    #[serde(default)]
    pub stamp: u64,
    /// Item counts. After a failure, all items count as failed.
    pub items: ItemCounts,
    /// The rows written, or why the attempt failed.
    pub outcome: Result<Segment, Failure>,
    /// The items that failed in an attempt that succeeded as a whole, each with its reason. In the event of a
    /// mini-batch that failed for good: the places of its items, with a reason only for files that could not
    /// be fetched. At most [`AttemptReport::MAX_FAILED_ITEMS`]; the counts are exact in any case.
    #[serde(deserialize_with = "few::<_, _, { AttemptReport::MAX_FAILED_ITEMS }>")]
    pub failed_items: Vec<FailedItem>,
    /// Whether an attempt that succeeded returned fewer rows than it received items
    /// (docs/parallel-run-step.md W4). Records that could not be read are failed items. The entry script
    /// never receives them.
    pub is_short: bool,
    /// By how many the rows outnumber the items. More than zero is worth a warning.
    pub surplus_rows: u64,
    /// Values of its rows that were `nan` or infinite. They are null in the output, as JSON cannot express
    /// them.
    #[serde(default)]
    pub null_numbers: u64,
    /// In an attempt that succeeded, the records with keys that do not belong to any column, if the job
    /// counts them.
    #[serde(default)]
    pub unknown_keys: Option<UnknownKeys>,
    /// The columns of the attempt's rows, if the output file begins with a header.
    pub header: Option<OutputHeader>,
    /// Whether the guest left files to publish (in `staged/<id>-<attempt>` of the worker's folder).
    pub has_files: bool,
    /// Seconds from picking up the mini-batch to the end of writing its rows.
    pub elapsed_seconds: f64,
    /// CPU seconds of the whole worker process in that time, user and system. Includes the time for reporting
    /// the previous attempt, if this one began right after it.
    pub process_seconds: f64,
    /// Bytes that the worker process read in that time, from files and sockets. `None` if the kernel does not
    /// count them.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// The call of `run` alone.
    pub run: CallStats,
    /// Inference in that call. Null in events without inference: the zeros would make up a fifth of an
    /// event's text.
    #[serde(default, with = "null_if_none")]
    pub inference: InferenceStats,
}

impl AttemptReport {
    /// The most failed items that a report names. This bounds the size of a frame.
    pub const MAX_FAILED_ITEMS: usize = 1000;

    /// A report of an attempt that took no time and has no other results.
    pub fn new(
        id: MiniBatchId,
        attempt: u32,
        stamp: u64,
        items: ItemCounts,
        outcome: Result<Segment, Failure>,
    ) -> Self {
        Self {
            id,
            attempt,
            stamp,
            items,
            outcome,
            failed_items: Vec::new(),
            is_short: false,
            surplus_rows: 0,
            null_numbers: 0,
            unknown_keys: None,
            header: None,
            has_files: false,
            elapsed_seconds: 0.0,
            process_seconds: 0.0,
            bytes_read: None,
            run: CallStats::default(),
            inference: InferenceStats::default(),
        }
    }
}

/// Adds the bytes that one attempt read to those of others. An unknown number adds nothing.
pub fn add_bytes(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        // A worker is not trusted and may report any number, so the sum must not overflow.
        *sum = Some(sum.unwrap_or_default().saturating_add(more));
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Every mini-batch was handled, within the thresholds, and the output is complete.
    Completed,
    /// A threshold was exceeded, workers could not start, or the machine failed.
    Failed,
    /// A user stopped the job. Committed results are kept.
    Cancelled,
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// How it ended.
    pub status: JobStatus,
    /// Why it failed or was cancelled: one or two sentences for people, which name the setting that would
    /// have prevented it. Empty for a completed job.
    pub reason: String,
    /// The first failure that contributed to the reason, if there was one.
    pub first_failure: Option<FirstFailure>,
    /// The cause of its end, for programs. `None` for a completed job.
    pub ended_by: Option<EndedBy>,
    /// Mini-batches planned so far.
    pub mini_batches: u64,
    /// Mini-batches that succeeded.
    pub succeeded_mini_batches: u64,
    /// Mini-batches that failed for good.
    pub failed_mini_batches: u64,
    /// Mini-batches that succeeded with fewer rows than items (docs/parallel-run-step.md W4).
    pub short_mini_batches: u64,
    /// Those of the succeeded and failed mini-batches that an earlier run had done before this run resumed
    /// the job.
    pub restored_mini_batches: u64,
    /// Results of this run that arrived after their attempt had been decided, for example by a time-out. They
    /// were discarded.
    #[serde(default)]
    pub late_attempts: u64,
    /// Items of all mini-batches that have ended.
    pub items: ItemCounts,
    /// Lines in the output file.
    pub rows: u64,
    /// Seconds from start to end.
    pub seconds: f64,
    /// CPU seconds of workers in all attempts of this run, user and system.
    #[serde(default)]
    pub processor_seconds: f64,
    /// Bytes that workers read in all attempts of this run that they reported. `None` if the kernel does not
    /// count them.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// The peak memory of any one process that was started for this run, in bytes. In a program that runs
    /// several jobs, the processes of all jobs count.
    #[serde(default)]
    pub peak_memory: Option<u64>,
    /// Inference in all attempts of this run, whether they succeeded or not.
    #[serde(default)]
    pub inference: InferenceStats,
    /// The process wall around the workers. Empty if no worker was ever ready.
    pub os_sandbox: WallState,
    /// The runtime that ran the entry script, with its versions, for people. `None` for an entry script that
    /// is a component of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
}

impl JobResult {
    /// Whether the job failed before there was a mini-batch, because its inputs cannot be used.
    pub fn never_began(&self) -> bool {
        self.status == JobStatus::Failed
            && self.mini_batches == 0
            && self.restored_mini_batches == 0
            && self.first_failure.is_none()
            && matches!(self.ended_by, None | Some(EndedBy::Plan))
    }
}

/// Why a job ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// More failed items than `error_threshold`.
    ErrorThreshold,
    /// More failed mini-batches than `allowed_failed_count`.
    AllowedFailedCount,
    /// A larger share of failed mini-batches than `allowed_failed_percent`.
    AllowedFailedPercent,
    /// No item succeeded, so there is nothing to write (W10).
    NothingSucceeded,
    /// `init` kept failing (I1, I2).
    InitFailures,
    /// Every worker hung in `init` (I3).
    StuckInInit,
    /// No mini-batch existed after `first_task_creation_timeout` (A3).
    FirstTaskTimeout,
    /// There was no progress for `progress_update_timeout` (A2).
    ProgressTimeout,
    /// More mini-batches than `limits.mini_batches`.
    MiniBatchLimit,
    /// The job ran for as long as `limits.job_time`.
    JobTime,
    /// The inputs cannot be used.
    Plan,
    /// Results cannot be written.
    Commit,
    /// Worker processes cannot be started.
    Spawn,
    /// A user cancelled the job.
    Cancelled,
}

/// The first failure of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstFailure {
    /// The mini-batch. `None` if the failure happened outside of one, for example in `init`.
    pub mini_batch: Option<MiniBatchId>,
    /// The worker's name, if one was involved.
    pub worker: Option<String>,
    /// The item and line, if known.
    pub item: Option<FailedItem>,
    /// What happened.
    pub failure: Failure,
}
