//! The messages between the leader of a running job and a node. No bulk data travels here: mini-batches are
//! descriptors, and rows stay in part files. Times are sent as ages, because the clocks of two machines
//! differ.

use crate::{Assignment, FromPlanner};
use sandmill_model::{AttemptReport, CallStats, Failure, MiniBatchId, WallState, WorkerId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Leader to node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// How many workers should run. The node starts the missing ones as far as it can.
    Want(u32),
    /// Begin these attempts, each on a worker without one. See [`WorkersStanding::idle`] and
    /// [`WorkersStanding::awaits_word`].
    Grant(Vec<Grant>),
    /// Queue one of these on each of the [takers](GrowingQueues::takers), after the attempts that they have.
    GrantAhead(Vec<Assignment>),
    /// The worker that waits after a failed attempt continues with its queue.
    GoOn,
    /// Whether a worker of another node is past its `init`. If so, a worker that stays inside `init` is late.
    PastInitElsewhere(bool),
    /// Nothing remains to be assigned, and only results are awaited: ask workers without an attempt to end.
    Retire,
    /// The job ends, and so do its workers.
    End(WorkersEnd),
}

impl Order {
    /// Whether this order grants attempts.
    pub fn is_grant(&self) -> bool {
        matches!(self, Self::Grant(_) | Self::GrantAhead(_))
    }
}

/// An attempt for a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The attempt.
    pub assignment: Assignment,
    /// The worker of this node on which this mini-batch last failed; another worker is preferred.
    pub failed_on: Option<WorkerId>,
}

/// How the workers of a node end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkersEnd {
    /// All mini-batches are done: `shutdown` is called in workers whose `init` succeeded.
    Done,
    /// The job was cancelled: attempts inside `run` may finish, and no others begin.
    Orderly,
    /// All workers are killed.
    AtOnce,
}

/// Node to leader. `age` is always the time since the worker began to load the attempt's mini-batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeNews {
    /// What the node's workers are doing, after a change.
    Standing(WorkersStanding),
    /// A notice for the user about a worker.
    Notice(String),
    /// A worker process runs.
    Spawned {
        /// Its number.
        worker: WorkerId,
        /// Its process.
        pid: u32,
        /// The index of the GPU that is leased to it.
        gpu: Option<u32>,
    },
    /// A worker process could not be started.
    SpawnFailed {
        /// Its number.
        worker: WorkerId,
        /// Why, for people.
        reason: String,
        /// Whether the node has no other worker.
        is_alone: bool,
    },
    /// A worker was not started, because other jobs use everything that the machine gives to jobs.
    NoRoom(OtherWorkers),
    /// A worker's `init` succeeded.
    Ready {
        /// Its number.
        worker: WorkerId,
        /// How long its start took: since the process started, or since the previous instance broke.
        start: Duration,
        /// The call of `init`.
        init: CallStats,
    },
    /// A worker's `init` failed, or the worker ended inside it.
    InitFailed {
        /// Its number.
        worker: WorkerId,
        /// Why.
        failure: Failure,
    },
    /// An attempt entered `run`.
    Started {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
    },
    /// An attempt ended.
    Finished {
        /// The worker.
        worker: WorkerId,
        /// The age of the attempt.
        age: Duration,
        /// Whether `run` began.
        has_run: bool,
        /// The worker's report.
        report: Box<AttemptReport>,
    },
    /// An attempt ended because its worker died or was killed, so that no report will come.
    Lost {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// The age of the attempt.
        age: Duration,
        /// How long it was inside `run`; `None` if `run` had not begun.
        run: Option<Duration>,
        /// Processor time that it used until its worker was killed, in seconds; 0 if that is not known.
        process_seconds: f64,
        /// Why.
        failure: Failure,
    },
    /// These mini-batches were granted but did not begin, or their attempts ended through no fault of their
    /// own. They are in the order of their grants.
    Returned(Vec<MiniBatchId>),
    /// A result came from a worker that was killed for that attempt. The leader ignores it.
    Late {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
        /// Whether it would have been a success.
        succeeded: bool,
    },
    /// A worker was asked to end in order: it calls `shutdown`.
    Closing,
    /// A worker process is gone.
    Exited {
        /// Its number.
        worker: WorkerId,
        /// How it ended, for people.
        how: String,
        /// Whether the exit was expected.
        expected: bool,
    },
}

/// Which other workers a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherWorkers {
    /// None.
    Alone,
    /// Only workers that are ending.
    Ending,
    /// At least one that works.
    Working,
}

/// What a node's workers are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersStanding {
    /// Workers inside `init`.
    pub starting: u32,
    /// Workers without an attempt.
    pub idle: u32,
    /// Workers that load a mini-batch.
    pub loading: u32,
    /// Workers inside `run`.
    pub running: u32,
    /// Workers that were asked to end.
    pub closing: u32,
    /// Workers that were killed, or whose `init` failed.
    pub doomed: u32,
    /// The first of the workers inside `init`.
    pub first_starting: Option<WorkerId>,
    /// How long the most recent of the workers inside `init` has been there.
    pub last_start: Option<Duration>,
    /// Whether a worker is alive whose `init` has succeeded at least once.
    pub has_good: bool,
    /// Failures of `init` since the last success.
    pub init_failures: u32,
    /// Whether the node starts no workers for a while, because the machine had no room for one.
    pub is_pausing: bool,
    /// How many granting orders the node has carried out. The leader uses it to tell whether the rest of this
    /// message is older than its last grant.
    pub grants: u64,
    /// Whether the node knows that the job is ending.
    pub is_ending: bool,
    /// Of the workers that may receive more, those with the shortest queue.
    pub ahead: Option<GrowingQueues>,
    /// `Some` if a worker waits after a failed attempt. The value is whether it may receive a retry; it is
    /// `false` if the retry would have to wait there for a slow `init`.
    pub awaits_word: Option<bool>,
}

/// Workers whose queue may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingQueues {
    /// How many attempts each of them has.
    pub depth: u32,
    /// How many such workers there are.
    pub takers: u32,
}

impl WorkersStanding {
    /// Workers that have neither exited nor been doomed.
    pub fn live(&self) -> u32 {
        self.starting + self.past_init()
    }

    /// Records that a worker without an attempt gets one. If there is none, nothing changes: the attempt goes
    /// to a worker that waits after a failure.
    pub fn loads_one(&mut self) {
        if self.idle > 0 {
            self.idle -= 1;
            self.loading += 1;
        }
    }

    /// All workers that have not exited.
    pub fn workers(&self) -> u32 {
        self.live() + self.doomed
    }

    /// Live workers whose `init` is over.
    pub fn past_init(&self) -> u32 {
        self.idle + self.loading + self.running + self.closing
    }
}

/// What a node reports to the leader of a running job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeReport {
    /// About its workers.
    News(NodeNews),
    /// What its workers are doing has changed: the leader should ask for their [standing](NodeNews::Standing).
    Changed,
    /// A notice for the user, which may explain why there is no mini-batch.
    Notice(String),
    /// The planner's next message, except those that the node answers itself.
    Planned(FromPlanner),
    /// An object of a store has arrived, or a part of one.
    Arrived,
    /// The objects that a mini-batch waited for have arrived, except these: for each, its position in
    /// [`MiniBatch::reads`](sandmill_model::MiniBatch::reads), and the reason, for people.
    Fetched(u64, Vec<(u32, String)>),
    /// The disk has no room for objects that mini-batches need.
    NoSpace(String),
    /// How busy the job's GPUs are, in percent.
    GpuUse(u32),
    /// The wall around the worker that is ready now.
    Wall(WallState),
    /// A worker has ended in order, after `shutdown`.
    WorkerDone(WorkerId),
    /// A worker is gone: no further message comes from it.
    WorkerGone(WorkerId),
}
