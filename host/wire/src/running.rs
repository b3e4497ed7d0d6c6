//! The messages between the leader of a running job and a node. They contain no bulk data: mini-batches are
//! descriptors, and rows stay in part files. Times are sent as ages (the time since an event), because the
//! clocks of two machines differ.

use crate::store::UnfetchedObject;
use crate::{Assignment, FromPlanner};
use sandmill_model::{
    AttemptReport, AttemptUsage, CallStats, Failure, MiniBatchId, NodeId, WallState, WorkerId,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Leader to node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// How many workers should run. The node starts the missing workers if it can.
    Want(u32),
    /// Begin these attempts, each on an idle worker, or on a worker that waits after a failed attempt. See
    /// [`WorkersStanding::idle`] and [`WorkersStanding::awaits_decision`].
    Grant(Vec<Grant>),
    /// Append these attempts to the shortest queues that may [grow](GrowingQueues), one after the other.
    GrantAhead(Vec<Assignment>),
    /// End an attempt without a report, because its mini-batch has succeeded on another node. The node does
    /// nothing if the attempt has already ended.
    Cancel {
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
    },
    /// Workers that wait after a failed attempt continue with their queues.
    GoOn,
    /// Whether a worker of another node is past `init`. If so, the time-out of `init` applies to each worker
    /// of this node.
    PastInitElsewhere(bool),
    /// Ask workers without an attempt to end, because no attempt remains and only results are awaited.
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
    /// The worker of this node on which the mini-batch has just failed. The node prefers another worker.
    pub failed_on: Option<WorkerId>,
}

/// How the workers of a node end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkersEnd {
    /// All mini-batches are done: `shutdown` is called in workers whose `init` succeeded.
    Done,
    /// The job was cancelled: attempts inside `run` may finish, and no other attempts begin.
    Orderly,
    /// All workers are killed.
    AtOnce,
}

/// Node to leader. `age` is always the time since the worker began to load the attempt's mini-batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeNews {
    /// What the node's workers are doing, after a change.
    Standing(WorkersStanding),
    /// The attempts that the node has from an earlier leader of the job. It goes on with them, unless the leader
    /// [cancels](Order::Cancel) them. Comes once, before other news of attempts.
    Continues(Vec<ContinuedAttempt>),
    /// A notice for the user about a worker.
    Notice(String),
    /// A worker process was started.
    Spawned {
        /// Its number.
        worker: WorkerId,
        /// The process id.
        pid: u32,
        /// The index of the GPU that is leased to it.
        gpu: Option<u32>,
    },
    /// A worker process could not be started.
    SpawnFailed {
        /// Its number.
        worker: WorkerId,
        /// Why, as text for the user.
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
    /// A worker's `init` failed, or the worker ended inside `init`.
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
        /// What the attempt used, as the node measured it.
        usage: AttemptUsage,
        /// The worker's report.
        report: Box<AttemptReport>,
    },
    /// An attempt ended because its worker died or was killed, so that no report will come.
    Lost {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
        /// The age of the attempt.
        age: Duration,
        /// How long the attempt was inside `run`. `None` if `run` had not begun.
        run: Option<Duration>,
        /// The processor time that the attempt used until its worker was killed, in seconds. 0 if it is
        /// unknown.
        process_seconds: f64,
        /// What the attempt used, as the node measured it.
        usage: AttemptUsage,
        /// Why.
        failure: Failure,
    },
    /// These mini-batches, each with the number of its attempt, go back to the leader: their attempts did not
    /// begin, or the mini-batches are not to blame for the worker's end. They are in the order of their grants.
    Returned(Vec<(MiniBatchId, u32)>),
    /// A worker's result arrived after the node had killed the worker because of this attempt. The
    /// leader ignores the result.
    Late {
        /// The worker.
        worker: WorkerId,
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
        /// Whether the attempt would have succeeded.
        succeeded: bool,
    },
    /// A worker was asked to end normally: it calls `shutdown`.
    Closing,
    /// A worker process is gone.
    Exited {
        /// Its number.
        worker: WorkerId,
        /// How it ended, as text for the user.
        how: String,
        /// Whether the exit was expected.
        expected: bool,
    },
    /// An attempt did not begin, because the node could not fetch these objects. The others are here.
    Unfetched {
        /// The mini-batch.
        id: MiniBatchId,
        /// From 1.
        attempt: u32,
        /// The objects, by the positions of their files in
        /// [`MiniBatch::reads`](sandmill_model::MiniBatch::reads).
        objects: Vec<UnfetchedObject>,
    },
}

/// An attempt that a node has from an earlier leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinuedAttempt {
    /// The mini-batch.
    pub id: MiniBatchId,
    /// From 1.
    pub attempt: u32,
    /// The worker that is inside `run` for it. `None` if the attempt has not begun, or has ended: then its report
    /// follows.
    pub runs_on: Option<WorkerId>,
    /// How long the worker has been inside `run`. Zero if it is not.
    pub age: Duration,
}

/// Which other workers a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherWorkers {
    /// The node has no other worker.
    Alone,
    /// All other workers are ending.
    Ending,
    /// At least one other worker works.
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
    /// The worker with the lowest number inside `init`.
    pub first_starting: Option<WorkerId>,
    /// How long the worker that entered `init` last has been inside. `None` if no worker is inside.
    pub last_start: Option<Duration>,
    /// Whether a worker is alive whose `init` has succeeded at least once.
    pub has_good: bool,
    /// Failures of `init` since the last success.
    pub init_failures: u32,
    /// Whether the node starts no workers for a while, because the machine had no room for one.
    pub is_pausing: bool,
    /// Whether the node takes no attempts for now, because its disk has no room. What its workers have goes on.
    pub is_full: bool,
    /// The number of orders with grants that the node has carried out. It tells the leader whether this
    /// message is older than the leader's last grant.
    pub grants: u64,
    /// Whether the node knows that the job is ending.
    pub is_ending: bool,
    /// The queues that may grow.
    pub ahead: Option<GrowingQueues>,
    /// `Some` if a worker waits for the leader's decision after a failed attempt. `Some(true)` if that worker
    /// may receive a retry, `Some(false)` if a retry on it would have to wait for a slow `init`.
    pub awaits_decision: Option<bool>,
}

/// The queues that may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingQueues {
    /// How many attempts the workers with the shortest of these queues have.
    pub depth: u32,
    /// How many such workers there are.
    pub takers: u32,
    /// By how many attempts the queues of all workers may grow together.
    pub room: u32,
}

impl WorkersStanding {
    /// Workers that have neither exited nor been killed, and whose `init` has not failed.
    pub fn live(&self) -> u32 {
        self.starting + self.past_init()
    }

    /// Records that an idle worker gets an attempt. If no worker is idle, nothing changes: the attempt goes
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

/// What one node has reported, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReports {
    /// The node's number within the job.
    pub node: NodeId,
    /// Its reports.
    pub reports: Vec<NodeReport>,
}

impl NodeReports {
    /// Reports of the only node of a job on one machine.
    pub fn of_only_node(reports: Vec<NodeReport>) -> Self {
        Self { node: NodeId::ONLY, reports }
    }
}

/// What a node reports to the leader of a running job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeReport {
    /// News about the node's workers.
    News(NodeNews),
    /// The state of the node's workers has changed: the leader should ask for their
    /// [standing](NodeNews::Standing).
    Changed,
    /// The node computes models with these backends, and not with those of the job. Only the leader's own machine reports
    /// this.
    MixedBackends(String),
    /// The node takes part in the job from now on. It runs at most this many workers at the same time.
    Joined {
        /// The most workers.
        workers: u32,
    },
    /// The node is lost: nothing that it still sends counts. The leader's own part of the connection makes
    /// this report.
    Lost,
    /// A notice for the user. Before the first mini-batch, it may explain why there is none.
    Notice(String),
    /// The planner's next message. The node keeps those that it handles itself, such as requests
    /// for files.
    Planned(FromPlanner),
    /// An object of a store has arrived, or a part of one.
    Arrived,
    /// The objects that this mini-batch (by its number) waited for have arrived, except the listed ones. Each
    /// is listed with its position in [`MiniBatch::reads`](sandmill_model::MiniBatch::reads) and the reason.
    Fetched(u64, Vec<(u32, String)>),
    /// The disk has no room for objects that mini-batches need.
    NoSpace(String),
    /// How busy the job's GPUs are, in percent.
    GpuUse(u32),
    /// The wall around the worker that is ready now.
    Wall(WallState),
    /// A worker has ended normally, after `shutdown`.
    WorkerDone(WorkerId),
    /// A worker is gone: no further message comes from it.
    WorkerGone(WorkerId),
}
