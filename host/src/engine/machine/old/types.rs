//! What goes into the machine, what comes out, and what it remembers of workers.

use super::Policy;
use super::queue::Pending;
use crate::model::{AttemptReport, EndedBy, JobStatus, WorkerId};
use std::collections::VecDeque;
use std::time::Duration;

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
    pub(crate) fn new(now: Duration) -> Self {
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
