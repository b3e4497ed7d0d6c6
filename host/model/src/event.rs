//! What the engine tells the world. Owned, serialisable data; reporters, the raw event file and,
//! later, other front ends read the same type. Imports `model` only.

use crate::{AttemptReport, Failure, ItemCounts, JobResult, MiniBatchId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Something that happened in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Version of this envelope and its kinds.
    pub version: u32,
    /// The run that it belongs to: the id of this execution of the job.
    pub run: String,
    /// Counts from 0 within one run of the job, without gaps.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
}

impl Event {
    /// The version that this build writes.
    pub const VERSION: u32 = 1;
}

/// How far an earlier run of a job came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Mini-batches that succeeded.
    pub succeeded: u64,
    /// Mini-batches that failed for good.
    pub failed: u64,
    /// Their items.
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
        /// On whose behalf.
        tenant: String,
        /// How many workers are wanted.
        workers: u32,
        /// What an earlier run of the job had done, if this one takes it up.
        resumed: Option<Resumed>,
    },
    /// What holds for this run, though it need not stand in the job file: for the log alone.
    InForce {
        /// One line.
        message: String,
    },
    /// What the columns of an input are taken to be, where its files say it.
    Columns {
        /// One line.
        message: String,
    },
    /// Something the user should know, that is no failure.
    Notice {
        /// One line.
        message: String,
    },
    /// The job has no worker, and waits until other jobs leave room on the machine; until the next worker is started.
    WaitsForTurn,
    /// How busy the machine's GPUs are, where that has changed; only where a driver tells.
    GpuUse {
        /// Percent of the time since a moment ago, on the average of all.
        percent: u32,
    },
    /// More mini-batches are known.
    Planned {
        /// Mini-batches known so far.
        mini_batches: u64,
        /// Items known so far.
        items: u64,
        /// Whether that is all.
        finished: bool,
        /// How much of the inputs that is, in thousandths, where it is not all and the share can be told.
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
        /// Seconds from before its process was started, or from the end of the instance before, with `init`.
        #[serde(default)]
        start_seconds: f64,
        /// Seconds that `init` took.
        init_seconds: f64,
        /// The fuel that it used, where fuel is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init_fuel: Option<u64>,
    },
    /// A worker could not load the entry script, or its `init` failed.
    InitFailed {
        /// The worker's name.
        worker: String,
        /// Why.
        failure: Failure,
    },
    /// A worker process ended.
    WorkerExited {
        /// The worker's name.
        worker: String,
        /// In words, e.g. "exited with returncode -9".
        how: String,
        /// Whether it was meant to end.
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
    /// An attempt ended, well or not. For one that succeeded, its rows are safely committed.
    AttemptFinished {
        /// The worker's name.
        worker: String,
        /// What the worker, or the engine in its place, says of it.
        report: Box<AttemptReport>,
        /// Where the mini-batch lies, in words: files, or file and lines.
        location: String,
        /// When the attempt began.
        started: Timestamp,
        /// Whether the mini-batch will be tried again.
        will_retry: bool,
    },
    /// A worker that had been killed had ended its attempt all the same: too late, as the attempt was
    /// decided already. Nothing of it is kept.
    AttemptDiscarded {
        /// The worker's name.
        worker: String,
        /// The mini-batch.
        id: MiniBatchId,
        /// The attempt, from 1.
        attempt: u32,
        /// Whether it would have been a success.
        succeeded: bool,
    },
    /// A worker died while it held a mini-batch that it had not begun; it goes back unharmed.
    MiniBatchReturned {
        /// The mini-batch.
        id: MiniBatchId,
    },
    /// No new mini-batches are handed out from here on.
    WindingDown {
        /// Why.
        reason: String,
    },
    /// The last event.
    JobFinished {
        /// What the job came to.
        result: Box<JobResult>,
    },
}
