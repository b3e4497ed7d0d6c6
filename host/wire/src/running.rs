//! What the leader of a running job and a node say to each other. No bulk travels here: mini-batches are
//! descriptors, rows stay in part files. Clocks of two machines differ, so that times are told as ages.

use crate::{Assignment, FromPlanner};
use sandmill_model::{AttemptReport, CallStats, Failure, MiniBatchId, WallState, WorkerId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Leader to node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Have so many workers run. The node starts what is missing as far as it can.
    Want(u32),
    /// Begin these attempts, each on a worker that has none. See [`Standing::idle`] and [`Standing::awaits_word`].
    Grant(Vec<Grant>),
    /// Give one of these to each of the [takers](Ahead::takers), to follow what they have.
    GrantAhead(Vec<Assignment>),
    /// The worker that waits after a failed attempt goes on with what it has.
    GoOn,
    /// Whether a worker of another node is past its `init`, so that one which stays inside is late.
    PastInitElsewhere(bool),
    /// Nothing but results is awaited: workers without an attempt are asked to end.
    Retire,
    /// The job ends, and so do its workers.
    End(End),
}

impl Order {
    /// Whether it grants attempts.
    pub fn is_grant(&self) -> bool {
        matches!(self, Self::Grant(_) | Self::GrantAhead(_))
    }
}

/// An attempt for a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The attempt.
    pub assignment: Assignment,
    /// The worker of this node whose attempt at it failed last; another one is better.
    pub failed_on: Option<WorkerId>,
}

/// How the workers of a node end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// All mini-batches have ended: `shutdown` is called where `init` succeeded.
    Done,
    /// A cancelled job: attempts inside `run` may end, no others begin.
    Orderly,
    /// All are killed.
    AtOnce,
}

/// Node to leader. `age` is always the time since an attempt's worker began to load its mini-batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// What the node's workers are at, after something changed.
    Standing(Standing),
    /// Something to tell the user, of a worker.
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
    /// A worker was not started, as other jobs use all that the machine gives.
    NoRoom(Company),
    /// A worker's `init` succeeded.
    Ready {
        /// Its number.
        worker: WorkerId,
        /// From its start, or from its instance's break, until now.
        start: Duration,
        /// Of `init`.
        init: CallStats,
    },
    /// A worker's `init` failed, or the worker ended inside it.
    InitFailed {
        /// Its number.
        worker: WorkerId,
        /// Why.
        failure: Failure,
    },
    /// An attempt is inside `run`.
    Started {
        /// Whose.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
    },
    /// An attempt ended.
    Finished {
        /// Whose.
        worker: WorkerId,
        /// Since when.
        age: Duration,
        /// Whether `run` began.
        has_run: bool,
        /// What came of it.
        report: Box<AttemptReport>,
    },
    /// An attempt ended with its worker, which can say nothing more.
    Lost {
        /// Whose.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// Since when.
        age: Duration,
        /// How long it was inside `run`, if it was.
        run: Option<Duration>,
        /// Processor time that it took until its worker was killed, in seconds; 0 where that is not known.
        process_seconds: f64,
        /// Why.
        failure: Failure,
    },
    /// These were granted and not begun, or ended through no fault of their own. In the order of their grants.
    Returned(Vec<MiniBatchId>),
    /// A result came from a worker that was killed for that attempt: it counts for nothing.
    Late {
        /// Whose.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
        /// Whether it would have been a success.
        succeeded: bool,
    },
    /// A worker was asked to end in order: its `shutdown` is called.
    Closing,
    /// A worker process is gone.
    Exited {
        /// Its number.
        worker: WorkerId,
        /// For people.
        how: String,
        /// Whether it was to end.
        expected: bool,
    },
}

/// What other workers a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Company {
    /// None.
    Alone,
    /// Only such as end.
    Ending,
    /// At least one that works.
    Working,
}

/// What a node's workers are at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
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
    /// The first of those inside `init`.
    pub first_starting: Option<WorkerId>,
    /// How long the last of those inside `init` has been there.
    pub last_start: Option<Duration>,
    /// Whether a worker lives whose `init` has succeeded once.
    pub has_good: bool,
    /// Failures of `init` since one succeeded.
    pub init_failures: u32,
    /// Whether no worker is started for a while, as the machine has had no room for one.
    pub is_pausing: bool,
    /// How many orders that grant attempts were obeyed: what else is said here may be older than a grant.
    pub grants: u64,
    /// Whether the node was told that the job ends.
    pub is_ending: bool,
    /// The workers that have least ahead of those that may have more.
    pub ahead: Option<Ahead>,
    /// A worker waits after a failed attempt: whether it may be given a retry, which would not wait for a slow `init`
    /// there.
    pub awaits_word: Option<bool>,
}

/// Workers that may be given mini-batches ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// How many attempts each of them has.
    pub depth: u32,
    /// How many they are.
    pub takers: u32,
}

impl Standing {
    /// Workers that have neither exited nor been doomed.
    pub fn live(&self) -> u32 {
        self.starting + self.past_init()
    }

    /// One of the workers without an attempt gets one. Nothing changes if there is none: it goes to one that waits.
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

/// What a node that runs a job tells its leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// Of its workers.
    News(News),
    /// What its workers are at has changed: how it [stands](News::Standing) is to be asked.
    Changed,
    /// Something to tell the user, which may say why there is no mini-batch.
    Notice(String),
    /// The planner's next words, but for what the node answers itself.
    Planned(FromPlanner),
    /// An object of a store has come, or a part of one.
    Arrived,
    /// The objects that a mini-batch waited for are here, but for some: the place among
    /// [`MiniBatch::reads`](sandmill_model::MiniBatch::reads), and why, for people.
    Fetched(u64, Vec<(u32, String)>),
    /// The disk has no room for what mini-batches need.
    NoSpace(String),
    /// How busy the job's GPUs are, in percent.
    GpuUse(u32),
    /// Around the worker that is ready now.
    Wall(WallState),
    /// A worker has ended in order, after `shutdown`.
    WorkerDone(WorkerId),
    /// A worker is gone: nothing more comes from it.
    WorkerGone(WorkerId),
}
