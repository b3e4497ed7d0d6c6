//! What an attempt and a job came to.

use super::few::few;
use super::{Failure, FailureKind, InferenceStats, MiniBatchId, WallState};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Items of a mini-batch, or of a job. `succeeded + failed = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    /// All items.
    pub total: u64,
    /// Items for which a row came back.
    pub succeeded: u64,
    /// The rest.
    pub failed: u64,
}

impl ItemCounts {
    /// Counts where `returned` rows came back for `total` items. More rows than items count as all
    /// items succeeded (prs-semantics E8).
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
    /// The item: a file's path as the guest sees it, or a table's file.
    pub item: String,
    /// The line in the file, from 1, for a record of a table.
    pub line: Option<u64>,
    /// The row in a file without lines, from 1; or in the mini-batch's table, where the line is not known.
    pub row: Option<u64>,
    /// Why it failed.
    pub reason: String,
    /// The kind of that: what could not be read is `bad_input`, what `run` gave up is `script_error`.
    #[serde(default = "by_script")]
    pub kind: FailureKind,
}

/// What failed items were before their kind was told.
fn by_script() -> FailureKind {
    FailureKind::ScriptError
}

/// Records of JSON lines with keys that no column takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownKeys {
    /// How many records.
    pub records: u64,
    /// Some of the keys, at most [`UnknownKeys::NAMES`].
    #[serde(deserialize_with = "few::<_, _, { UnknownKeys::NAMES }>")]
    pub names: Vec<String>,
    /// The file of the first of the records.
    pub item: String,
    /// Its line there, from 1.
    pub line: u64,
}

impl UnknownKeys {
    /// How many keys are named at most.
    pub const NAMES: usize = 5;
    /// Bytes of a key's name, and of a file's, at most.
    const NAME: usize = 1 << 10;
    const ITEM: usize = 64 << 10;

    /// Whether so many records can have them, and the leader may keep their names.
    pub fn is_plausible(&self, records: u64) -> bool {
        let name_fits = |name: &String| name.len() <= Self::NAME;
        self.records <= records && self.item.len() <= Self::ITEM && self.names.iter().all(name_fits)
    }

    /// Adds others, which come later.
    pub fn add(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        for name in &other.names {
            if self.names.len() < Self::NAMES && !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
    }
}

/// What one call into the guest used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallStats {
    /// Wall time of the call.
    pub seconds: f64,
    /// Fuel used, if the job measures it.
    pub fuel: Option<u64>,
}

/// What stands at the top of the output file: the columns of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The first line, without its end; or, of an output with types, each column on a line of its own.
    /// Says all that must be the same in every attempt.
    pub text: String,
    /// As it is written, where that is not the text with a line end. No part of events.
    #[serde(default, with = "unseen")]
    pub bytes: Option<Vec<u8>>,
    /// Of an output with types, where a column holds nulls alone and other tables have to say of which type: these
    /// columns, as a stream of their own without rows. No part of events either.
    #[serde(default, with = "unseen")]
    pub open_columns: Option<Vec<u8>>,
}

impl Header {
    /// The first line with its end, where it is written like that; none for one that is empty.
    pub fn line(&self) -> Option<String> {
        let line = self.text.strip_suffix('\n').unwrap_or(&self.text);
        (self.bytes.is_none() && !line.is_empty()).then(|| format!("{line}\n"))
    }

    /// As it is written; none if there is nothing to write.
    pub fn written(&self) -> Option<Vec<u8>> {
        self.bytes.clone().or_else(|| self.line().map(String::into_bytes))
    }
}

impl From<&str> for Header {
    fn from(line: &str) -> Self {
        Self { text: line.to_owned(), bytes: None, open_columns: None }
    }
}

/// Bytes that processes tell each other, and nobody else.
mod unseen {
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

/// Numbers that are null for people where all of them are zero.
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

/// What a worker says of one attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What tells the mini-batch, with the content of its files, from others: its planned
    /// [`stamp`](super::MiniBatch::stamp) and, for files, the size and time of each as the worker
    /// found them. The planned stamp alone where no worker could say. A job is taken up again only
    /// if the mini-batches that are done would be the same today.
    #[serde(default)]
    pub stamp: u64,
    /// Items. After a failure all of them count as failed.
    pub items: ItemCounts,
    /// The rows written, or why the attempt failed.
    pub outcome: Result<Segment, Failure>,
    /// Items that failed in an attempt that succeeded as a whole, with the reason; in the event of a
    /// mini-batch of files that failed for good, these, without one. At most
    /// [`AttemptReport::MAX_FAILED_ITEMS`]; the counts are exact in any case.
    #[serde(deserialize_with = "few::<_, _, { AttemptReport::MAX_FAILED_ITEMS }>")]
    pub failed_items: Vec<FailedItem>,
    /// Whether an attempt that succeeded returned fewer rows than it was given items (prs-semantics
    /// W4). Records that could not be read are failed items, and were not given to it.
    pub is_short: bool,
    /// Number of rows more than items, if any: worth a warning.
    pub surplus_rows: u64,
    /// Values of its rows that were `nan` or infinite and are null in the output, as JSON has no numbers for them.
    #[serde(default)]
    pub null_numbers: u64,
    /// Records of an attempt that succeeded with keys that no column takes, where these are counted.
    #[serde(default)]
    pub unknown_keys: Option<UnknownKeys>,
    /// The columns of the attempt's rows, where the output file begins with that.
    pub header: Option<Header>,
    /// Whether the guest left files to publish (in `staged/<id>-<attempt>` of the worker's folder).
    pub has_files: bool,
    /// Seconds from picking the mini-batch up to the end of writing its rows.
    pub elapsed_seconds: f64,
    /// CPU seconds of the whole worker process in that time, user and system; with what it took to tell of the attempt
    /// before, if it was picked up right after that.
    pub process_seconds: f64,
    /// Bytes that the worker process read meanwhile, from files and sockets; `None` where the kernel does not count them.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// The call of `run` alone.
    pub run: CallStats,
    /// Inference in that call. Null in events where there was none: it would be a fifth of them.
    #[serde(default, with = "null_if_none")]
    pub inference: InferenceStats,
}

impl AttemptReport {
    /// How many failed items a report names at most, to bound the frame.
    pub const MAX_FAILED_ITEMS: usize = 1000;

    /// An attempt that took no time and left nothing but this.
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

/// Adds bytes that one attempt read to those of others; what is not known adds nothing.
pub fn add_bytes(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        // A worker may say any number.
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
    /// Somebody stopped the job. What was committed is kept.
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

/// What a job came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The end.
    pub status: JobStatus,
    /// Why it failed or was cancelled: one or two sentences for people, naming the setting that
    /// would have changed it. Empty for a completed job.
    pub reason: String,
    /// The first failure that matters for the reason, if there was one.
    pub first_failure: Option<FirstFailure>,
    /// What ended it, for programs; none for a completed job.
    pub ended_by: Option<EndedBy>,
    /// Mini-batches planned so far.
    pub mini_batches: u64,
    /// Mini-batches that succeeded.
    pub succeeded_mini_batches: u64,
    /// Mini-batches that failed for good.
    pub failed_mini_batches: u64,
    /// Mini-batches that succeeded with fewer rows than items (prs-semantics W4).
    pub short_mini_batches: u64,
    /// Mini-batches, of those that succeeded or failed, that an earlier run had done before this one
    /// took the job up.
    pub restored_mini_batches: u64,
    /// Results of this run that came when their attempt was decided already, after a time-out say,
    /// and were discarded.
    #[serde(default)]
    pub late_attempts: u64,
    /// Items of all mini-batches that ended.
    pub items: ItemCounts,
    /// Lines in the output file.
    pub rows: u64,
    /// Seconds from start to end.
    pub seconds: f64,
    /// CPU seconds of workers in all attempts of this run, user and system.
    #[serde(default)]
    pub processor_seconds: f64,
    /// Bytes that workers read in all attempts of this run that they told of; `None` where the kernel does not count them.
    #[serde(default)]
    pub bytes_read: Option<u64>,
    /// The most memory that one process which was started for this run held, in bytes; of a program that runs several
    /// jobs, one of them all.
    #[serde(default)]
    pub peak_memory: Option<u64>,
    /// Inference in all attempts of this run, whether they succeeded or not.
    #[serde(default)]
    pub inference: InferenceStats,
    /// The process wall around the workers; empty if none was ever ready.
    pub os_sandbox: WallState,
    /// The runtime that ran the entry script and its versions, for people; `None` for a component of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
}

impl JobResult {
    /// Whether the job failed before there was a mini-batch: its inputs cannot be used.
    pub fn never_began(&self) -> bool {
        self.status == JobStatus::Failed
            && self.mini_batches == 0
            && self.restored_mini_batches == 0
            && self.first_failure.is_none()
            && matches!(self.ended_by, None | Some(EndedBy::Plan))
    }
}

/// What ended a job before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// More failed items than `error_threshold`.
    ErrorThreshold,
    /// More failed mini-batches than `allowed_failed_count`.
    AllowedFailedCount,
    /// A larger share of failed mini-batches than `allowed_failed_percent`.
    AllowedFailedPercent,
    /// No item succeeded, so that there is nothing to write (W10).
    NothingSucceeded,
    /// `init` kept failing (I1, I2).
    InitFailures,
    /// Every worker hung in `init` (I3).
    StuckInInit,
    /// No mini-batch existed after `first_task_creation_timeout` (A3).
    FirstTaskTimeout,
    /// Nothing moved for `progress_update_timeout` (A2).
    ProgressTimeout,
    /// More mini-batches than `limits.mini_batches`.
    MiniBatchLimit,
    /// It lasted for as long as `limits.job_time`.
    JobTime,
    /// The inputs cannot be used.
    Plan,
    /// Results cannot be written.
    Commit,
    /// Worker processes cannot be started.
    Spawn,
    /// Somebody asked for it.
    Cancelled,
}

/// Where a job's trouble began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstFailure {
    /// The mini-batch, unless it happened outside one (in `init`, say).
    pub mini_batch: Option<MiniBatchId>,
    /// The worker's name, if one was involved.
    pub worker: Option<String>,
    /// The item and line, if known.
    pub item: Option<FailedItem>,
    /// What happened.
    pub failure: Failure,
}
