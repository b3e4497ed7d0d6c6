//! The machine: its state, and the one door to it.

use super::leases::Leases;
use super::queue::{Pending, Queue, Turns};
use super::types::{Committing, Ending, Worker};
use super::{Action, Message, Policy};
use crate::event::EventKind;
use crate::model::{
    EndedBy, FirstFailure, InferenceStats, ItemCounts, MiniBatch, MiniBatchId, MiniBatchSet,
    Restored, Source, UnknownKeys, WorkerId,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The state of one job.
#[derive(Debug)]
pub struct Machine {
    pub(super) policy: Policy,
    pub(super) sources: Vec<Source>,
    pub(super) began: Timestamp,
    pub(super) now: Duration,
    pub(super) actions: Vec<Action>,
    /// Mini-batches that wait for a worker.
    pub(super) queue: Queue,
    /// Attempts that have begun, be it to load their mini-batch only.
    pub(super) begun: u64,
    /// The worker whose attempt has just failed, and that waits to learn what to begin next.
    pub(super) awaits_word: Option<WorkerId>,
    /// Whether the retry would wait there for a slow `init`.
    pub(super) mends_slowly: bool,
    /// Until when the leader does not look away, because an attempt has failed.
    pub(super) rough_until: Duration,
    /// Every worker that has not exited.
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) next_worker: u32,
    pub(super) leases: Leases,
    /// Workers of which it was told that they still have a GPU.
    pub(super) told_lost: BTreeSet<WorkerId>,
    /// Attempts, ended well or for good, that wait for the journal.
    pub(super) committing: HashMap<MiniBatchId, Committing>,
    /// Of those that ended well: items that failed, and mini-batches that came back short.
    pub(super) unwritten_failures: u64,
    pub(super) unwritten_short: u64,
    /// The attempts that killed workers were at, until these have exited: results that still come of
    /// them are late.
    pub(super) abandoned: BTreeMap<WorkerId, (MiniBatchId, u32)>,
    /// Late results so far.
    pub(super) late: u64,
    /// Mini-batches that an earlier run of the job had done, and how many they are.
    pub(super) done_before: MiniBatchSet,
    pub(super) restored: u64,
    /// Whether a worker was asked to end in order, or has ended so in an earlier run.
    pub(super) closed: bool,
    pub(super) planned: u64,
    pub(super) planned_items: u64,
    pub(super) plan_finished: bool,
    /// The last that was told of the inputs while they had given no mini-batch.
    pub(super) found_nothing: Option<String>,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Of those that succeeded: with fewer rows than items (prs-semantics W4).
    pub(super) short: u64,
    pub(super) items: ItemCounts,
    pub(super) rows: u64,
    /// Of all attempts of this run.
    pub(super) inference: InferenceStats,
    /// When something last moved (A2).
    pub(super) moved: Duration,
    /// When objects of a store came last.
    pub(super) arrived: Duration,
    /// Failures of `init` since the last one that succeeded (I1, I2), and the first of them.
    pub(super) init_failures_in_a_row: u32,
    pub(super) init_failure: Option<FirstFailure>,
    /// Whether it was told that no new workers are started.
    pub(super) told_init_stop: bool,
    /// When starting a worker process is tried again after that has failed.
    pub(super) spawn_again_at: Option<Duration>,
    pub(super) told_spawn_trouble: bool,
    /// When it is looked again whether other jobs have left room.
    pub(super) room_again_at: Option<Duration>,
    /// Since when the job waits for other jobs to let it begin.
    pub(super) waits_since: Option<Duration>,
    /// Whether it was told that there are fewer workers than wanted for other jobs' sake.
    pub(super) told_no_room: bool,
    pub(super) warned_of_surplus: bool,
    /// Failures that were told so far.
    pub(super) failures_told: u64,
    /// How long the job has waited for its turn before a worker ran.
    pub(super) waited: Duration,
    /// Values of committed rows that are null, as JSON has no numbers for them.
    pub(super) null_numbers: u64,
    /// Of inputs of JSON lines, by their names.
    pub(super) unknown_keys: BTreeMap<String, UnknownKeys>,
    pub(super) first_failure: Option<FirstFailure>,
    pub(super) ending: Option<Ending>,
    pub(super) finished: bool,
}

impl Machine {
    /// A job before its first message. `began` is the time that `now` counts from.
    ///
    /// `restored` is what an earlier run of the job left done: it counts, and is not done again.
    pub fn new(policy: Policy, sources: Vec<Source>, began: Timestamp, restored: Restored) -> Self {
        Self {
            leases: Leases::new(policy.gpus.clone()),
            told_lost: BTreeSet::new(),
            policy,
            sources,
            began,
            now: Duration::ZERO,
            actions: Vec::new(),
            queue: Queue::default(),
            begun: 0,
            awaits_word: None,
            mends_slowly: false,
            rough_until: Duration::ZERO,
            workers: BTreeMap::new(),
            next_worker: restored.next_worker,
            committing: HashMap::new(),
            unwritten_failures: 0,
            unwritten_short: 0,
            abandoned: BTreeMap::new(),
            late: 0,
            restored: restored.ended(),
            closed: restored.closed,
            done_before: restored.finished,
            planned: 0,
            planned_items: 0,
            plan_finished: false,
            found_nothing: None,
            succeeded: restored.succeeded,
            failed: restored.failed,
            short: restored.short,
            items: restored.items,
            rows: restored.rows,
            inference: InferenceStats::default(),
            moved: Duration::ZERO,
            arrived: Duration::ZERO,
            init_failures_in_a_row: 0,
            init_failure: None,
            told_init_stop: false,
            spawn_again_at: None,
            told_spawn_trouble: false,
            room_again_at: None,
            waits_since: None,
            told_no_room: false,
            warned_of_surplus: false,
            failures_told: 0,
            waited: Duration::ZERO,
            null_numbers: 0,
            unknown_keys: BTreeMap::new(),
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
        self.take_in(message);
        self.check_thresholds();
        self.check_init_rules();
        self.spawn_wanted();
        self.assign();
        self.check_end();
        std::mem::take(&mut self.actions)
    }

    /// Takes the room of actions that are done back, for the next ones.
    pub fn reuse(&mut self, done: Vec<Action>) {
        self.actions = done;
        self.actions.clear();
    }

    fn take_in(&mut self, message: Message) {
        match message {
            Message::Planned(batches) => self.on_planned(batches),
            Message::PlanFinished => self.on_plan_finished(),
            Message::PlanFailed(text) => self.fail(EndedBy::Plan, text),
            Message::Arrived => self.on_arrived(),
            Message::Notice(message) => self.on_notice(message),
            Message::Spawned(worker, pid) => self.on_spawned(worker, pid),
            Message::SpawnFailed(worker, text) => self.on_spawn_failed(worker, &text),
            Message::NoRoom(worker) => self.on_no_room(worker),
            Message::Ready(worker, stats) => self.on_ready(worker, stats),
            Message::Restarting(worker) => self.on_restarting(worker),
            Message::InitFailed(worker, failure) => self.on_init_failed(worker, failure),
            Message::Started(worker, id) => self.on_started(worker, id),
            Message::Finished(worker, report) => self.on_finished(worker, report),
            Message::Overrun(worker, failure) => self.on_overrun(worker, failure),
            Message::Exited(worker, exit) => self.on_exited(worker, &exit),
            Message::GpuFree(worker) => self.on_gpu_free(worker),
            Message::Committed(ids) => ids.into_iter().for_each(|id| self.on_committed(id)),
            Message::Rejected(id, failure) => self.on_rejected(id, failure),
            Message::CommitFailed(text) => self.on_commit_failed(text),
            Message::NoSpace(text) => self.fail(EndedBy::Commit, text),
            Message::Cancel { reason, at_once } => self.on_cancel(reason, at_once),
            Message::Inferring(worker, words) => self.on_inferring(worker, words),
            // Only here: an answer that has arrived already must not be beaten by the clock of a
            // leader that was held up.
            Message::Tick => self.check_deadlines(),
        }
    }

    /// Whether more of the plan is welcome. Holds memory flat however large the input.
    pub fn wants_plan(&self) -> bool {
        !self.queue.is_full(self.policy.workers)
    }

    /// Whether an earlier run of the job had this one done.
    pub fn was_done_before(&self, id: MiniBatchId) -> bool {
        self.done_before.contains(id)
    }

    /// Whether the committer should write at once what it has gathered: nothing else is awaited, or it
    /// decides whether the job goes on.
    pub fn wants_commits(&self) -> bool {
        self.awaits_commits_only() || self.commits_would_end_it()
    }

    /// Whether nothing but commits is awaited.
    pub(super) fn awaits_commits_only(&self) -> bool {
        !self.committing.is_empty()
            && (self.plan_finished || self.ending.is_some())
            && self.queue.is_empty()
            && self.workers.values().all(|worker| worker.held.is_empty())
    }

    fn on_planned(&mut self, batches: Vec<MiniBatch>) {
        if self.ending.is_some() || batches.is_empty() {
            return;
        }
        self.progressed();
        for mini_batch in batches {
            self.planned += 1;
            self.planned_items += mini_batch.planned_items();
            if !self.done_before.contains(mini_batch.id) {
                self.queue.push_back(Pending::first(mini_batch));
            }
        }
        self.emit_planned();
        self.check_count();
    }

    fn on_notice(&mut self, message: String) {
        // What is told before there is a mini-batch may say why there is none.
        if self.planned == 0 && !self.plan_finished {
            self.found_nothing = Some(message.clone());
        }
        self.notice(message);
    }

    /// As long as objects come, nobody waits in vain for the first mini-batch.
    fn on_arrived(&mut self) {
        self.progressed();
        self.arrived = self.now;
    }

    fn on_plan_finished(&mut self) {
        if self.ending.is_none() {
            self.progressed();
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

    /// Something moved (A2): a part of the plan or of its objects came, a worker became ready, an attempt began
    /// or ended, a mini-batch was written.
    pub(super) fn progressed(&mut self) {
        self.moved = self.now;
    }

    pub(super) fn turns(&self) -> Turns {
        Turns { now: self.now, begun: self.begun, workers: self.policy.workers }
    }

    pub(super) fn emit(&mut self, kind: EventKind) {
        self.actions.push(Action::Emit(kind));
    }

    pub(super) fn notice(&mut self, message: String) {
        self.emit(EventKind::Notice { message });
    }

    pub(super) fn timestamp(&self, at: Duration) -> Timestamp {
        let offset = SignedDuration::try_from(at).unwrap_or(SignedDuration::MAX);
        self.began.checked_add(offset).unwrap_or(Timestamp::MAX)
    }
}
