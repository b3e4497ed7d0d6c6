//! What a node knows about a worker.

use crate::model::{AttemptReport, Failure, MiniBatchId, count_u32};
use crate::protocol::{Assignment, NodePolicy, QueuePolicy};
use std::collections::VecDeque;
use std::time::Duration;

/// What a worker is doing, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Loading the component or inside `init`, also for a new instance after a trap. After a trap,
    /// the worker may still hold mini-batches that it received before.
    Starting(Duration),
    /// Waiting for a mini-batch.
    Idle,
    /// Loading the first of `held`.
    Loading(Duration),
    /// Inside `run` with the first of `held`.
    Running(Duration),
    /// Asked to end.
    ShuttingDown(Duration),
    /// Killed, or ending after a failed `init`: its messages no longer count.
    Doomed(Duration),
}

impl Activity {
    /// Since when the worker is inside `run`. `None` if it is not.
    pub(super) fn running_since(self) -> Option<Duration> {
        match self {
            Self::Running(since) => Some(since),
            _ => None,
        }
    }
}

/// An attempt that a worker has.
#[derive(Clone, Debug)]
pub(super) struct HeldAttempt {
    pub(super) id: MiniBatchId,
    /// The number of the attempt, from 1.
    pub(super) attempt: u32,
    /// The number of items in its mini-batch.
    items: u64,
    /// See [`Assignment::is_last`].
    is_last: bool,
    /// Whether the attempt must not run, because its mini-batch has succeeded on another node.
    pub(super) is_cancelled: bool,
    /// Whether the attempt reads what this node fetches from stores.
    pub(super) has_objects: bool,
    /// Whether these objects are still being fetched. The worker does not have the attempt yet.
    pub(super) awaits_objects: bool,
}

impl HeldAttempt {
    pub(super) fn new(assignment: &Assignment) -> Self {
        Self {
            id: assignment.mini_batch.id,
            attempt: assignment.attempt,
            items: assignment.mini_batch.planned_items(),
            is_last: assignment.is_last,
            is_cancelled: false,
            has_objects: assignment.must_fetch(),
            awaits_objects: assignment.must_fetch(),
        }
    }

    /// See [`Assignment::awaits_decision`].
    pub(super) fn awaits_decision(&self, failure: &Failure) -> bool {
        Assignment::awaits_decision_after(failure, self.is_last)
    }

    /// See [`AttemptReport::fits`].
    pub(super) fn fits(&self, report: &AttemptReport) -> bool {
        report.fits(self.items)
    }
}

/// A worker that has not exited.
#[derive(Clone, Debug)]
pub(super) struct LiveWorker {
    pub(super) activity: Activity,
    /// The attempt that it is working on, and the next ones.
    pub(super) held: VecDeque<HeldAttempt>,
    /// When it picked up the first of `held`.
    pub(super) picked: Duration,
    /// How long a mini-batch takes, smoothed. `None` before the first.
    pub(super) pace: Option<Duration>,
    /// How many mini-batches should wait at this pace, so that the worker does not idle while the leader pauses.
    pace_target: usize,
    /// How long the start took, including `init`.
    pub(super) start_took: Duration,
    /// Whether the worker has received mini-batches that must no longer run. If so, we kill the
    /// worker after its running mini-batch, and do not ask it to end.
    pub(super) drops_next: bool,
    /// Whether it ends after the mini-batches that it has, because its place on the machine belongs to another job.
    pub(super) retires: bool,
    /// Whether its `init` has ever succeeded.
    pub(super) has_initialized: bool,
    /// Whether the worker may report a broken instance: once after each attempt. Otherwise a compromised
    /// worker could keep the job waiting forever.
    pub(super) may_restart: bool,
    /// The number of messages that it sent out of turn.
    pub(super) strays: u32,
    /// Its current model call, in words. Set only while deadlines are checked.
    pub(super) inferring: Option<String>,
}

impl LiveWorker {
    /// A worker that was just started.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            activity: Activity::Starting(now),
            held: VecDeque::new(),
            picked: now,
            pace: None,
            pace_target: 1,
            start_took: Duration::ZERO,
            drops_next: false,
            retires: false,
            has_initialized: false,
            may_restart: false,
            strays: 0,
            inferring: None,
        }
    }

    /// Updates the pace with the duration of a mini-batch. The duration may be false, because the
    /// worker reports it. A long duration counts in full immediately, because other workers cannot take
    /// the mini-batches that wait here.
    pub(super) fn took(&mut self, seconds: f64, policy: QueuePolicy) {
        let took = Duration::try_from_secs_f64(seconds).unwrap_or(policy.time);
        let took = took.min(Duration::from_secs(3600));
        let pace = self.pace.map_or(took, |pace| took.max((3 * pace + took) / 4));
        self.pace = Some(pace);
        self.pace_target = policy.target(pace);
    }

    /// Forgets the pace.
    pub(super) fn forget_pace(&mut self) {
        self.pace = None;
        self.pace_target = 1;
    }

    /// How many mini-batches should wait in its queue.
    fn queue_target(&self) -> usize {
        let fetches = self.held.back().is_some_and(|last| last.has_objects);
        let least = if fetches { NodePolicy::AHEAD_OBJECTS } else { 1 };
        self.pace_target.max(least)
    }

    /// How many more attempts the worker should queue. `None` if it should not queue another attempt.
    pub(super) fn takes_ahead(&self) -> Option<usize> {
        let most = self.queue_target() + 1;
        let room = most.saturating_sub(self.held.len());
        (self.is_working() && room > 0).then_some(room)
    }

    /// Whether its queue has room, however slow it is.
    pub(super) fn has_room(&self, policy: QueuePolicy) -> bool {
        self.is_working() && self.held.len() <= policy.most as usize
    }

    /// Whether it works, and will go on with the next mini-batch.
    fn is_working(&self) -> bool {
        matches!(self.activity, Activity::Loading(_) | Activity::Running(_)) && !self.retires
    }

    /// Whether it waits for the objects of its first attempt.
    pub(super) fn awaits_objects(&self) -> bool {
        self.held.front().is_some_and(|first| first.awaits_objects)
    }

    /// Removes an attempt that the worker does not have yet. Returns whether there was one.
    pub(super) fn remove_awaiting(
        &mut self,
        (id, attempt): (MiniBatchId, u32),
        now: Duration,
    ) -> bool {
        let is_it =
            |held: &HeldAttempt| held.awaits_objects && (held.id, held.attempt) == (id, attempt);
        let Some(place) = self.held.iter().position(is_it) else { return false };
        self.held.remove(place);
        if place == 0 && matches!(self.activity, Activity::Loading(_)) {
            self.picked = now;
            self.activity =
                if self.held.is_empty() { Activity::Idle } else { Activity::Loading(now) };
        }
        true
    }

    /// Whether starting an instance takes longer than a mini-batch takes.
    pub(super) fn starts_slowly(&self) -> bool {
        self.start_took > self.pace.unwrap_or_default().max(NodePolicy::SLOW_START)
    }

    /// Whether it has enough to do while the leader pauses.
    pub(super) fn is_supplied(&self, policy: QueuePolicy) -> bool {
        match self.activity {
            Activity::Loading(_) | Activity::Running(_) => self.supply() >= policy.pause * 2,
            Activity::Starting(_)
            | Activity::Idle
            | Activity::ShuttingDown(_)
            | Activity::Doomed(_) => false,
        }
    }

    /// How long its queued work will take.
    fn supply(&self) -> Duration {
        self.pace.unwrap_or_default().saturating_mul(count_u32(self.held.len().saturating_sub(1)))
    }

    pub(super) fn is_free(&self) -> bool {
        self.activity == Activity::Idle && self.held.is_empty()
    }

    /// Whether it has a mini-batch.
    pub(super) fn has_work(&self) -> bool {
        matches!(self.activity, Activity::Loading(_) | Activity::Running(_))
    }

    /// Whether it has, or has had, a mini-batch, or has waited for one since its start.
    pub(super) fn has_had_work(&self, now: Duration) -> bool {
        let has_waited = || now.saturating_sub(self.picked) >= Duration::from_secs(1);
        let is_idle = self.activity == Activity::Idle;
        self.has_work() || (is_idle && (self.pace.is_some() || has_waited()))
    }

    /// Whether it takes no more mini-batches.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.activity, Activity::ShuttingDown(_) | Activity::Doomed(_)) || self.retires
    }

    pub(super) fn is_doomed(&self) -> bool {
        matches!(self.activity, Activity::Doomed(_))
    }

    /// Whether it is neither inside `init` nor doomed.
    pub(super) fn is_past_init(&self) -> bool {
        !matches!(self.activity, Activity::Starting(_) | Activity::Doomed(_))
    }
}
