//! What a node remembers of a worker.

use crate::model::{AttemptReport, Failure, MiniBatchId, count_u32};
use crate::protocol::{Assignment, NodePolicy};
use std::collections::VecDeque;
use std::time::Duration;

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

/// An attempt that a worker has.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) id: MiniBatchId,
    /// From 1.
    pub(super) attempt: u32,
    /// How many items its mini-batch has.
    items: u64,
    /// See [`Assignment::is_last`].
    is_last: bool,
}

impl Held {
    pub(super) fn new(assignment: &Assignment) -> Self {
        Self {
            id: assignment.mini_batch.id,
            attempt: assignment.attempt,
            items: assignment.mini_batch.planned_items(),
            is_last: assignment.is_last,
        }
    }

    /// See [`Assignment::awaits_word`].
    pub(super) fn awaits_word(&self, failure: &Failure) -> bool {
        Assignment::awaits_word_after(failure, self.is_last)
    }

    /// A worker that its guest has taken over may say anything; sums and limits must hold all the same.
    pub(super) fn fits(&self, report: &AttemptReport) -> bool {
        let items = report.items;
        let rows = report.outcome.as_ref().map_or(0, |segment| segment.rows);
        items.total == self.items
            && items.succeeded.checked_add(items.failed) == Some(items.total)
            && rows.max(report.surplus_rows).max(report.null_numbers) < 1 << 40
            && (!report.is_short || items.failed > 0 && report.outcome.is_ok())
            && report.failed_items.len() <= AttemptReport::MAX_FAILED_ITEMS
            && report.unknown_keys.as_ref().is_none_or(|keys| keys.is_plausible(items.total))
            && report.inference.is_plausible()
    }
}

/// A worker that has not exited.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) activity: Activity,
    /// The attempt it works on, and the next ones.
    pub(super) held: VecDeque<Held>,
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
        let took = Duration::try_from_secs_f64(seconds).unwrap_or(NodePolicy::AHEAD_TIME);
        let took = took.min(Duration::from_secs(3600));
        self.pace = Some(self.pace.map_or(took, |pace| took.max((3 * pace + took) / 4)));
    }

    /// How many mini-batches it should have ahead.
    fn ahead(&self) -> usize {
        let Some(pace) = self.pace else { return 1 };
        let count = NodePolicy::AHEAD_TIME.as_nanos() / pace.as_nanos().max(1);
        (count as usize).clamp(1, NodePolicy::AHEAD)
    }

    /// How many attempts it has, if it may be given another one ahead.
    pub(super) fn takes_ahead(&self) -> Option<usize> {
        match self.activity {
            Activity::Loading(_) | Activity::Running(_) => {
                let depth = self.held.len();
                (depth <= self.ahead()).then_some(depth)
            }
            Activity::Idle
            | Activity::Starting(_)
            | Activity::ShuttingDown(_)
            | Activity::Doomed(_) => None,
        }
    }

    /// Whether a new instance takes it longer than a mini-batch takes the others.
    pub(super) fn starts_slowly(&self) -> bool {
        self.start_took > self.pace.unwrap_or_default().max(NodePolicy::SLOW_START)
    }

    /// Whether it has enough to do while the leader looks away.
    pub(super) fn is_supplied(&self) -> bool {
        match self.activity {
            Activity::Loading(_) | Activity::Running(_) => self.supply() >= NodePolicy::PAUSE * 2,
            Activity::Starting(_)
            | Activity::Idle
            | Activity::ShuttingDown(_)
            | Activity::Doomed(_) => false,
        }
    }

    /// For how long it has work ahead.
    fn supply(&self) -> Duration {
        self.pace.unwrap_or_default().saturating_mul(count_u32(self.held.len().saturating_sub(1)))
    }

    pub(super) fn is_free(&self) -> bool {
        self.activity == Activity::Idle && self.held.is_empty()
    }

    pub(super) fn is_doomed(&self) -> bool {
        matches!(self.activity, Activity::Doomed(_))
    }

    /// Neither inside `init` nor doomed.
    pub(super) fn is_past_init(&self) -> bool {
        !matches!(self.activity, Activity::Starting(_) | Activity::Doomed(_))
    }
}
