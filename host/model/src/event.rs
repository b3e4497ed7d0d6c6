//! The events that the leader reports. They are owned, serialisable data. Reporters, the raw event file and
//! future front ends all read the same type.

use crate::{AttemptReport, Failure, ItemCounts, JobResult, MiniBatchId, ReceiptTotals};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Something that happened in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The version of this struct and of the kinds: [`Event::VERSION`].
    pub version: u32,
    /// The id of the run, which is one execution of the job.
    pub run: String,
    /// The event's number within the run: from 0, without gaps.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// The version that this build writes.
    pub const VERSION: u32 = 1;
}

/// What earlier runs of a job completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Mini-batches that failed for good.
    pub failed: u64,
    /// The items of all these mini-batches.
    pub items: ItemCounts,
    /// Lines in the output.
    pub rows: u64,
}

/// The kinds of events. Later versions may have more.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The job begins.
    JobStarted {
        /// The job's name.
        job: String,
        /// The tenant on whose behalf the job runs.
        tenant: String,
        /// The number of workers that the job wants.
        workers: u32,
        /// The results of an earlier run, if this run resumes the job.
        resumed: Option<Resumed>,
    },
    /// A setting of this run, which need not be in the job file, or a conversion of a setting. Only the log
    /// shows this event.
    InForce {
        /// One line.
        message: String,
    },
    /// The columns that Sandmill found in an input.
    Columns {
        /// One line.
        message: String,
    },
    /// Something the user should know that is not a failure.
    Notice {
        /// One line.
        message: String,
    },
    /// The job has no worker and waits for other jobs to free room on the machine. This holds until the next
    /// worker is started.
    WaitsForTurn,
    /// The load of the machine's GPUs has changed. This event does not occur if no driver reports
    /// the load.
    GpuUse {
        /// The share of time in which a GPU was recently busy, in percent, averaged over all GPUs.
        percent: u32,
    },
    /// More mini-batches are known.
    Planned {
        /// Mini-batches known so far.
        mini_batches: u64,
        /// Items known so far.
        items: u64,
        /// Whether the plan is complete.
        finished: bool,
        /// The planned part of the inputs, in thousandths. `None` if planning has finished or the part is not
        /// known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<u16>,
    },
    /// A worker process was started.
    WorkerStarted {
        /// The worker's name.
        worker: String,
        /// Its process id.
        pid: u32,
        /// The index of the GPU leased to it.
        gpu_index: Option<u32>,
    },
    /// A worker's `init` succeeded.
    WorkerReady {
        /// The worker's name.
        worker: String,
        /// Seconds from just before the start of its process, or from the end of its previous instance, to
        /// the end of `init`.
        #[serde(default)]
        start_seconds: f64,
        /// Seconds that `init` took.
        init_seconds: f64,
        /// The fuel that `init` used, if fuel is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init_fuel: Option<u64>,
    },
    /// A worker could not load the entry script, or its `init` failed.
    InitFailed {
        /// The worker's name.
        worker: String,
        /// The reason.
        failure: Failure,
    },
    /// A worker process ended.
    WorkerExited {
        /// The worker's name.
        worker: String,
        /// How it ended, e.g. "exited with returncode -9".
        how: String,
        /// Whether its end was expected.
        expected: bool,
    },
    /// A mini-batch is loaded, and `run` begins.
    AttemptStarted {
        /// The worker's name.
        worker: String,
        /// The mini-batch.
        id: MiniBatchId,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// An attempt ended. If it succeeded, its rows are safely committed.
    AttemptFinished {
        /// The worker's name.
        worker: String,
        /// The worker's report, or the leader's if the worker could not send one.
        report: Box<AttemptReport>,
        /// Where the mini-batch's data is, as text for the user: files, or a file and lines.
        location: String,
        /// When the attempt began.
        started: Timestamp,
        /// Whether the mini-batch will be tried again, or its twin continues.
        will_retry: bool,
    },
    /// A killed worker's result arrived after the node had reported the attempt as lost. The node
    /// discards the result.
    AttemptDiscarded {
        /// The worker's name.
        worker: String,
        /// The mini-batch.
        id: MiniBatchId,
        /// The attempt, from 1.
        attempt: u32,
        /// Whether the attempt would have been a success.
        succeeded: bool,
    },
    /// A node computes models with other backends than the job, as the job allows (`allow_mixed_backends`).
    MixedBackends {
        /// The node's number.
        node: u32,
        /// Its libraries with their versions, and its devices.
        backends: String,
    },
    /// A mini-batch takes much longer than most near the job's end. Another node makes a second attempt (a twin)
    /// with the same number, while the first one continues.
    TwinGranted {
        /// The mini-batch.
        id: MiniBatchId,
        /// The number of both attempts, from 1.
        attempt: u32,
        /// The number of the node that makes the second attempt.
        node: u32,
        /// The number of the node that makes the first attempt.
        first_node: u32,
        /// How long the first attempt has taken so far, in seconds.
        seconds: f64,
        /// How long half of the recent attempts took at most, in seconds.
        median_seconds: f64,
    },
    /// The leader has ended an attempt inside `run`, because its twin has succeeded. This is neither a success nor
    /// a failure.
    AttemptCancelled {
        /// The worker's name.
        worker: String,
        /// The mini-batch.
        id: MiniBatchId,
        /// The attempt, from 1.
        attempt: u32,
        /// The name of the worker that has succeeded.
        by: String,
    },
    /// A mini-batch returns to the queue, because no worker began it or because its node was lost.
    /// This does not count as an attempt.
    MiniBatchReturned {
        /// The mini-batch.
        id: MiniBatchId,
    },
    /// The sums of the job's receipts so far, of all its runs. They are in the journal.
    Receipts {
        /// The sums.
        totals: Box<ReceiptTotals>,
    },
    /// From here on, no new mini-batches are given to workers.
    WindingDown {
        /// Why.
        reason: String,
    },
    /// The last event.
    JobFinished {
        /// The result of the job.
        result: Box<JobResult>,
    },
}
