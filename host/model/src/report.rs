//! The results of an attempt and of a job.

use super::bounded_vec::bounded_vec;
use super::{Failure, FailureKind, InferenceStats, MiniBatchId, ReceiptTotals, WallState};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many items of a mini-batch or of a job succeeded, and how many failed. `succeeded + failed = total`.
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
    /// as succeeded (rule E8 in docs/parallel-run-step.md).
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

/// One item that failed in a mini-batch whose other items continued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedItem {
    /// The item: a file's path as the guest sees it, or the file of a table.
    pub item: String,
    /// For a record of a text file: its line, from 1.
    pub line: Option<u64>,
    /// For a file without lines: the row in the file, from 1. If that or the line is unknown: the row in the
    /// mini-batch's table.
    pub row: Option<u64>,
    /// Why it failed.
    pub reason: String,
    /// The kind of the failure: `bad_input` if the item could not be read, `script_error` if `run` reported
    /// the item as failed.
    #[serde(default = "script_error")]
    pub kind: FailureKind,
}

/// The kind of failed items in reports of earlier versions, which did not have this field.
fn script_error() -> FailureKind {
    FailureKind::ScriptError
}

/// Records of JSON lines with keys that do not belong to any column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownKeys {
    /// The number of such records.
    pub records: u64,
    /// Some of the keys, at most [`UnknownKeys::NAMES`].
    #[serde(deserialize_with = "bounded_vec::<_, _, { UnknownKeys::NAMES }>")]
    pub names: Vec<String>,
    /// The file of the first such record.
    pub item: String,
    /// The line of that record, from 1.
    pub line: u64,
}

impl UnknownKeys {
    /// The most keys that are named.
    pub const NAMES: usize = 5;
    /// The longest name of a key, in bytes.
    const MAX_NAME_BYTES: usize = 1 << 10;
    /// The longest path of a file, in bytes.
    const MAX_ITEM_BYTES: usize = 64 << 10;

    /// Whether the counts are possible for a mini-batch of `records` records, and the names are short enough
    /// for the leader to keep.
    pub fn is_plausible(&self, records: u64) -> bool {
        let name_fits = |name: &String| name.len() <= Self::MAX_NAME_BYTES;
        self.records <= records
            && self.item.len() <= Self::MAX_ITEM_BYTES
            && self.names.iter().all(name_fits)
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
    /// The fuel used. `None` if the job does not measure it.
    pub fuel: Option<u64>,
}

/// The top of the output file: the columns of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputHeader {
    /// For lines: the first line, without its line end. For Parquet and Arrow: one line for each column. The
    /// text contains everything that must be the same in every attempt.
    pub text: String,
    /// The bytes to write. `None` means the text and a line end. Always null in events.
    #[serde(default, with = "binary_only")]
    pub bytes: Option<Vec<u8>>,
    /// For Parquet and Arrow, if a column has only nulls: the columns as an Arrow IPC stream without rows.
    /// Other tables determine the type of such a column. Always null in events.
    #[serde(default, with = "binary_only")]
    pub open_columns: Option<Vec<u8>>,
}

impl OutputHeader {
    /// The first line with its line end. `None` if it is empty, or if `bytes` are written instead.
    pub fn line(&self) -> Option<String> {
        let line = self.text.strip_suffix('\n').unwrap_or(&self.text);
        (self.bytes.is_none() && !line.is_empty()).then(|| format!("{line}\n"))
    }

    /// The bytes to write. `None` if the output has no header.
    pub fn written(&self) -> Option<Vec<u8>> {
        self.bytes.clone().or_else(|| self.line().map(String::into_bytes))
    }
}

impl From<&str> for OutputHeader {
    fn from(line: &str) -> Self {
        Self { text: line.to_owned(), bytes: None, open_columns: None }
    }
}

/// Serialises bytes in binary messages only. In text formats such as JSON they are null.
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

/// Serialises statistics as null in text formats such as JSON if all of them are zero.
mod null_if_zero {
    use super::InferenceStats;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        stats: &InferenceStats,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let is_null = to.is_human_readable() && *stats == InferenceStats::default();
        if is_null { to.serialize_none() } else { stats.serialize(to) }
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
    /// Identifies the mini-batch and the content of its files. A hash of the planned
    /// [`stamp`](super::MiniBatch::stamp) and, for files, of each file's size and time, as the
    /// worker found them. If no worker could read the files, this is the planned stamp. When a job
    /// is resumed, the leader compares stamps: the job fails if a finished mini-batch would have
    /// another stamp now.
    #[serde(default)]
    pub stamp: u64,
    /// Item counts. After a failure, all items count as failed.
    pub items: ItemCounts,
    /// The rows written, or why the attempt failed.
    pub outcome: Result<Segment, Failure>,
    /// If the attempt succeeded: the items that failed nevertheless, each with its reason. If the
    /// mini-batch failed for good, the leader puts its items into the event, with a reason only for
    /// files that could not be fetched. The list has at most [`AttemptReport::MAX_FAILED_ITEMS`]
    /// entries, but `items` counts all.
    #[serde(deserialize_with = "bounded_vec::<_, _, { AttemptReport::MAX_FAILED_ITEMS }>")]
    pub failed_items: Vec<FailedItem>,
    /// Whether an attempt that succeeded returned fewer rows than it received items (rule W4). The entry
    /// script does not receive records that could not be read, so these do not count here.
    pub is_short: bool,
    /// How many more rows than items were returned. If there are any, the user gets a notice.
    pub surplus_rows: u64,
    /// How many values of the attempt's rows were `nan` or infinite. They are null in the output,
    /// because JSON has no such numbers.
    #[serde(default)]
    pub null_numbers: u64,
    /// In an attempt that succeeded: the records with keys that do not belong to any column. `None` if there
    /// are none, or if the job does not count them.
    #[serde(default)]
    pub unknown_keys: Option<UnknownKeys>,
    /// The columns of the attempt's rows, if the output file begins with a header.
    pub header: Option<OutputHeader>,
    /// Whether the guest left files to publish (in `staged/<id>-<attempt>` of the worker's folder).
    pub has_files: bool,
    /// Seconds from picking up the mini-batch to the end of writing its rows.
    pub elapsed_seconds: f64,
    /// CPU seconds of the whole worker process in the same time, user and system. If the attempt began right
    /// after another one, this includes the time for reporting the other one.
    pub process_seconds: f64,
    /// Bytes that the worker process read in the same time, from files and sockets. `None` if the kernel does
    /// not count them.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// The call of `run` alone.
    pub run: CallStats,
    /// Inference in the call of `run`. Null in events without inference: zeros would make up a fifth of an
    /// event's text.
    #[serde(default, with = "null_if_zero")]
    pub inference: InferenceStats,
}

impl AttemptReport {
    /// The most failed items that a report names, so that a report fits into a message.
    pub const MAX_FAILED_ITEMS: usize = 1000;

    /// Whether the numbers in the report add up and are within their limits, for a mini-batch with this many
    /// items. A compromised worker or node may report anything.
    pub fn fits(&self, items_of_mini_batch: u64) -> bool {
        let items = self.items;
        let rows = self.outcome.as_ref().map_or(0, |segment| segment.rows);
        items.total == items_of_mini_batch
            && items.succeeded.checked_add(items.failed) == Some(items.total)
            && rows.max(self.surplus_rows).max(self.null_numbers) < 1 << 40
            && (!self.is_short || items.failed > 0 && self.outcome.is_ok())
            && self.failed_items.len() <= Self::MAX_FAILED_ITEMS
            && self.unknown_keys.as_ref().is_none_or(|keys| keys.is_plausible(items.total))
            && self.inference.is_plausible()
    }

    /// A report of an attempt that took no time. Fields that are not arguments are empty.
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

/// Adds to `sum` the bytes that one attempt read. An unknown number adds nothing.
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
    /// Why the job failed or was cancelled, in one or two sentences for the user. They name the setting to
    /// change. Empty for a completed job.
    pub reason: String,
    /// The first failure that contributed to the reason, if there was one.
    pub first_failure: Option<FirstFailure>,
    /// Why the job ended early, for programs. `None` for a completed job.
    pub ended_by: Option<EndedBy>,
    /// Mini-batches planned so far.
    pub mini_batches: u64,
    /// Mini-batches that succeeded.
    pub succeeded_mini_batches: u64,
    /// Mini-batches that failed for good.
    pub failed_mini_batches: u64,
    /// Mini-batches that succeeded with fewer rows than items (rule W4).
    pub short_mini_batches: u64,
    /// How many of the succeeded and failed mini-batches an earlier run had done, before this run resumed the
    /// job.
    pub restored_mini_batches: u64,
    /// Results of this run that arrived after their attempt had been reported as lost, for example
    /// because of a time-out. They were discarded.
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
    /// Bytes that workers read in all attempts of this run. Attempts without a report do not count. `None` if
    /// the kernel does not count bytes.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// The highest peak memory of a single process that was started for this run, in bytes. In a program that
    /// runs several jobs, the processes of all jobs count.
    #[serde(default)]
    pub peak_memory: Option<u64>,
    /// Inference in all attempts of this run, whether they succeeded or not.
    #[serde(default)]
    pub inference: InferenceStats,
    /// The process wall around the workers. Empty if no worker was ever ready.
    pub os_sandbox: WallState,
    /// The runtime that ran the entry script, with its versions, as text for the user. `None` if the entry
    /// script is itself a component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The backends with which nodes have computed models in this run, if they are not those of the job
    /// (`allow_mixed_backends`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed_backends: Vec<String>,
    /// The sums of the job's receipts, of all its runs. `None` if the job has no receipts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipts: Option<Box<ReceiptTotals>>,
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
    /// No item succeeded, so there is nothing to write (rule W10).
    NothingSucceeded,
    /// `init` kept failing (rules I1 and I2).
    InitFailures,
    /// Every worker hung in `init` (rule I3).
    StuckInInit,
    /// No mini-batch existed after `first_task_creation_timeout` (rule A3).
    FirstTaskTimeout,
    /// There was no progress for `progress_update_timeout` (rule A2).
    ProgressTimeout,
    /// More mini-batches than `limits.mini_batches`.
    MiniBatchLimit,
    /// The job ran for as long as `limits.job_time`.
    JobTime,
    /// The inputs cannot be used.
    Plan,
    /// Results cannot be written.
    Commit,
    /// Another process leads the job.
    Replaced,
    /// Worker processes cannot be started.
    Spawn,
    /// A user cancelled the job.
    Cancelled,
}

/// The first failure of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstFailure {
    /// The mini-batch. `None` if the failure did not happen in a mini-batch, but for example in `init`.
    pub mini_batch: Option<MiniBatchId>,
    /// The worker's name, if one was involved.
    pub worker: Option<String>,
    /// The item and line, if known.
    pub item: Option<FailedItem>,
    /// What happened.
    pub failure: Failure,
}
