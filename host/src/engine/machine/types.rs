//! What goes into the machine, what comes out, and what it remembers of workers.

use super::Policy;
use super::queue::Pending;
use crate::event::EventKind;
use crate::model::WorkerExit;
use crate::model::{
    AttemptReport, CallStats, EndedBy, Failure, JobResult, JobStatus, MiniBatch, MiniBatchId,
    WorkerId,
};
use crate::protocol::Assignment;
use std::collections::VecDeque;
use std::time::Duration;

/// What happened.
#[derive(Clone, Debug)]
pub enum Message {
    /// More mini-batches.
    Planned(Vec<MiniBatch>),
    /// No more will come.
    PlanFinished,
    /// The inputs cannot be cut.
    PlanFailed(String),
    /// Something of what mini-batches will need has come to this machine.
    Arrived,
    /// Something to tell the user.
    Notice(String),
    /// A worker process runs.
    Spawned(WorkerId, u32),
    /// A worker process could not be started.
    SpawnFailed(WorkerId, String),
    /// A worker process was not started, as other jobs use all that the machine gives: its number is
    /// used again. In one round of actions, all that follow it get the same answer.
    NoRoom(WorkerId),
    /// A worker has an instance whose `init` succeeded.
    Ready(WorkerId, CallStats),
    /// A worker's instance broke, and it makes a new one.
    Restarting(WorkerId),
    /// A worker could not get one. It will exit.
    InitFailed(WorkerId, Failure),
    /// `run` begins.
    Started(WorkerId, MiniBatchId),
    /// An attempt ended.
    Finished(WorkerId, Box<AttemptReport>),
    /// A worker uses more memory than it may: it is to be killed, and its attempt has failed by
    /// that.
    Overrun(WorkerId, Failure),
    /// A worker process is gone.
    Exited(WorkerId, WorkerExit),
    /// The GPU of a worker that is gone, which was not free then, is free.
    GpuFree(WorkerId),
    /// These are in the journal and in the output.
    Committed(Vec<MiniBatchId>),
    /// This one cannot be committed, through its own fault.
    Rejected(MiniBatchId, Failure),
    /// Nothing can be committed any more.
    CommitFailed(String),
    /// The disk has no room for what mini-batches need. What is being committed still is.
    NoSpace(String),
    /// Somebody wants the job to end.
    Cancel {
        /// Why, for people.
        reason: String,
        /// Without waiting for running mini-batches.
        at_once: bool,
    },
    /// What a worker is at with a model, in words that follow "was"; told right before [`Self::Tick`].
    Inferring(WorkerId, String),
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Start a worker process, with the index of the GPU that is leased to it.
    Spawn(WorkerId, Option<u32>),
    /// Hand over an attempt, to follow those that the worker has.
    Assign(WorkerId, Assignment),
    /// Hand over an attempt that comes before those that the worker has. It waits after a failed one.
    AssignFirst(WorkerId, Assignment),
    /// Let a worker that waits after a failed attempt go on with what it has.
    GoOn(WorkerId),
    /// Ask for an orderly end.
    Shutdown(WorkerId),
    /// Kill.
    Kill(WorkerId),
    /// Journal the end of a mini-batch, then put its rows and files into the output.
    Commit(Settled),
    /// Tell the world.
    Emit(EventKind),
    /// The job is over. Always the last action.
    Finish(Box<JobResult>),
}

/// A mini-batch that ended, for the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// Whose attempt was the last.
    pub worker: WorkerId,
    /// What came of that attempt.
    pub report: Box<AttemptReport>,
}

/// An ended attempt that waits for the journal.
#[derive(Clone, Debug)]
pub(super) struct Committing {
    pub(super) pending: Pending,
    pub(super) worker: WorkerId,
    pub(super) report: Box<AttemptReport>,
    pub(super) started: Duration,
}

/// Why no new mini-batches are handed out, and since when.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) status: JobStatus,
    pub(super) by: Option<EndedBy>,
    pub(super) reason: String,
    /// When workers that still run are killed.
    pub(super) kill_at: Duration,
}

/// What a worker is doing, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Loading the component, inside `init`, also again after a trap. It may hold a mini-batch that
    /// it was given before the trap.
    Starting(Duration),
    /// Waiting for a mini-batch.
    Idle,
    /// Loading the first of `held`.
    Loading(Duration),
    /// Inside `run` with the first of `held`.
    Running(Duration),
    /// Asked to end.
    ShuttingDown(Duration),
    /// Killed, or ending after a failed `init`: nothing it still says counts.
    Doomed(Duration),
}

impl Activity {
    /// Since when it is inside `run`.
    pub(super) fn running_since(self) -> Option<Duration> {
        match self {
            Self::Running(since) => Some(since),
            _ => None,
        }
    }
}

/// A worker that has not exited.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) activity: Activity,
    /// The mini-batch it works on, and the next ones.
    pub(super) held: VecDeque<Pending>,
    /// When it picked the first of `held` up.
    pub(super) picked: Duration,
    /// How long a mini-batch takes it, smoothed; none before the first.
    pub(super) pace: Option<Duration>,
    /// How long it took to start, `init` included.
    pub(super) start_took: Duration,
    /// Whether it was given next mini-batches that must not run any more: it is killed, not asked
    /// to end, once the running one is done.
    pub(super) drops_next: bool,
    /// Whether its `init` has succeeded once.
    pub(super) good: bool,
    /// Whether it may say that its instance broke: once after each attempt. A worker that its guest
    /// has taken over could otherwise keep a job waiting for ever.
    pub(super) may_restart: bool,
    /// Messages that it sent out of turn.
    pub(super) strays: u32,
    /// What it is at with a model, while the clock is looked at.
    pub(super) inferring: Option<String>,
}

impl Worker {
    /// One that is just started.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            activity: Activity::Starting(now),
            held: VecDeque::new(),
            picked: now,
            pace: None,
            start_took: Duration::ZERO,
            drops_next: false,
            good: false,
            may_restart: false,
            strays: 0,
            inferring: None,
        }
    }

    /// Takes in how long a mini-batch took by the worker's own account, which need not be true. A long
    /// one counts at once: what waits behind it, nobody else can do.
    pub(super) fn took(&mut self, seconds: f64) {
        let took = Duration::try_from_secs_f64(seconds).unwrap_or(Policy::AHEAD_TIME);
        let took = took.min(Duration::from_secs(3600));
        self.pace = Some(self.pace.map_or(took, |pace| took.max((3 * pace + took) / 4)));
    }

    /// How many mini-batches it should have ahead.
    pub(super) fn ahead(&self) -> usize {
        let Some(pace) = self.pace else { return 1 };
        let count = Policy::AHEAD_TIME.as_nanos() / pace.as_nanos().max(1);
        (count as usize).clamp(1, Policy::AHEAD)
    }

    /// Whether a new instance takes it longer than a mini-batch takes the others.
    pub(super) fn starts_slowly(&self) -> bool {
        self.start_took > self.pace.unwrap_or_default().max(Policy::SLOW_START)
    }

    /// For how long it has work ahead.
    pub(super) fn supply(&self) -> Duration {
        self.pace.unwrap_or_default() * self.held.len().saturating_sub(1) as u32
    }

    pub(super) fn is_doomed(&self) -> bool {
        matches!(self.activity, Activity::Doomed(_))
    }
}
