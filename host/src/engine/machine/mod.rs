//! The leader's decisions, as a pure state machine: [`Machine::handle`] takes a message and the
//! time, and returns actions. No I/O, clock or thread in here, so that all of it can be simulated.
//! Retries, thresholds, init-failure rules, time-outs, completion and cancellation live here and
//! nowhere else. Imports `model`, `event` and `protocol`'s data; only the driver may import it.

mod assign;
mod attempts;
mod ending;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod types;
mod workers;

pub use types::{Action, Message, Policy, Settled};

use crate::event::EventKind;
use crate::model::{
    FirstFailure, ItemCounts, JobStatus, MiniBatch, MiniBatchId, Restored, Source, WorkerId,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use types::{Pending, Queue, Worker};

/// The state of one job.
#[derive(Debug)]
pub struct Machine {
    policy: Policy,
    sources: Vec<Source>,
    began: Timestamp,
    now: Duration,
    actions: Vec<Action>,
    /// Mini-batches that wait for a worker.
    queue: Queue,
    /// Every worker that has not exited.
    workers: BTreeMap<WorkerId, Worker>,
    next_worker: u32,
    /// Attempts, ended well or for good, that wait for the journal.
    committing: HashMap<MiniBatchId, types::Committing>,
    planned: u64,
    planned_items: u64,
    plan_finished: bool,
    succeeded: u64,
    failed: u64,
    items: ItemCounts,
    rows: u64,
    /// Failures of `init` since the last one that succeeded (prs-semantics I1, I2).
    init_failures_in_a_row: u32,
    warned_of_surplus: bool,
    first_failure: Option<FirstFailure>,
    ending: Option<Ending>,
    finished: bool,
}

/// Why no new mini-batches are handed out, and since when.
#[derive(Clone, Debug)]
struct Ending {
    status: JobStatus,
    reason: String,
    /// When workers that still run are killed.
    kill_at: Duration,
}

impl Machine {
    /// A job before its first message. `began` is the time that `now` counts from.
    ///
    /// `restored` is what an earlier run of the job left done.
    #[expect(clippy::needless_pass_by_value, reason = "taken apart as soon as jobs are taken up")]
    pub fn new(policy: Policy, sources: Vec<Source>, began: Timestamp, restored: Restored) -> Self {
        Self {
            policy,
            sources,
            began,
            now: Duration::ZERO,
            actions: Vec::new(),
            queue: Queue::default(),
            workers: BTreeMap::new(),
            next_worker: restored.next_worker,
            committing: HashMap::new(),
            planned: 0,
            planned_items: 0,
            plan_finished: false,
            succeeded: 0,
            failed: 0,
            items: ItemCounts::default(),
            rows: 0,
            init_failures_in_a_row: 0,
            warned_of_surplus: false,
            first_failure: None,
            ending: None,
            finished: false,
        }
    }

    /// Takes in what happened; returns what to do, in order. `now` never goes back.
    pub fn handle(&mut self, message: Message, now: Duration) -> Vec<Action> {
        self.now = now;
        if self.finished {
            return Vec::new();
        }
        match message {
            Message::Planned(batches) => self.on_planned(batches),
            Message::PlanFinished => self.on_plan_finished(),
            Message::PlanFailed(text) => self.fail(text),
            Message::Notice(message) => self.emit(EventKind::Notice { message }),
            Message::Spawned(worker, pid) => {
                self.emit(EventKind::WorkerStarted {
                    worker: worker.to_string(),
                    pid,
                    gpu_index: None,
                });
            }
            Message::SpawnFailed(worker, text) => self.on_spawn_failed(worker, &text),
            Message::Ready(worker, stats) => self.on_ready(worker, stats),
            Message::Restarting(worker) => self.on_restarting(worker),
            Message::InitFailed(worker, failure) => self.on_init_failed(worker, failure),
            Message::Started(worker, id) => self.on_started(worker, id),
            Message::Finished(worker, report) => self.on_finished(worker, *report),
            Message::Overrun(worker, failure) => self.kill_and_lose(worker, failure),
            Message::Exited(worker, exit) => self.on_exited(worker, &exit),
            Message::Committed(ids) => ids.into_iter().for_each(|id| self.on_committed(id)),
            Message::Rejected(id, failure) => self.on_rejected(id, failure),
            Message::CommitFailed(text) => self.on_commit_failed(text),
            Message::Cancel { reason, at_once } => self.on_cancel(reason, at_once),
            // Only here: an answer that has arrived already must not be beaten by the clock of a
            // leader that was held up.
            Message::Tick => self.check_deadlines(),
        }
        self.spawn_wanted();
        self.assign();
        self.check_end();
        std::mem::take(&mut self.actions)
    }

    /// When [`Message::Tick`] is due at the latest, if nothing else happens.
    pub fn next_deadline(&self) -> Option<Duration> {
        let doomed = self.workers.values().all(Worker::is_doomed);
        let kill = self.ending.as_ref().filter(|_| !doomed).map(|ending| ending.kill_at);
        let workers = self.workers.values().filter_map(|worker| self.deadline_of(worker));
        workers.chain(self.stuck_at()).chain(kill).min()
    }

    /// Whether more of the plan is welcome. Holds memory flat however large the input.
    pub fn wants_plan(&self) -> bool {
        !self.queue.is_full(self.policy.workers)
    }

    /// Whether nothing but commits is awaited: what the committer has gathered should go at once.
    pub fn awaits_commits_only(&self) -> bool {
        !self.committing.is_empty()
            && (self.plan_finished || self.ending.is_some())
            && self.queue.is_empty()
            && self.workers.values().all(|worker| worker.held.is_empty())
    }

    fn on_planned(&mut self, batches: Vec<MiniBatch>) {
        if self.ending.is_some() {
            return;
        }
        for mini_batch in batches {
            self.planned += 1;
            self.planned_items += mini_batch.planned_items();
            self.queue.push_back(Pending { mini_batch, attempt: 1 });
        }
        self.emit_planned();
    }

    fn on_plan_finished(&mut self) {
        if self.ending.is_none() {
            self.plan_finished = true;
            self.emit_planned();
        }
    }

    fn emit_planned(&mut self) {
        self.emit(EventKind::Planned {
            mini_batches: self.planned,
            items: self.planned_items,
            finished: self.plan_finished,
        });
    }

    fn emit(&mut self, kind: EventKind) {
        self.actions.push(Action::Emit(kind));
    }

    fn timestamp(&self, at: Duration) -> Timestamp {
        let offset = SignedDuration::try_from(at).unwrap_or(SignedDuration::MAX);
        self.began.checked_add(offset).unwrap_or(Timestamp::MAX)
    }
}
