//! The state machine of a job: its state and its interface.

use super::attempt_times::AttemptTimes;
use super::granted::GrantedMiniBatch;
use super::node::JobNode;
use super::queue::{MiniBatchQueue, PendingMiniBatch, QueueTurns};
use super::types::{Committing, JobAction, JobEnding, JobMessage, JobOutput};
use super::unplanned::UnplannedAttempt;
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{
    EndedBy, FirstFailure, InferenceStats, ItemCounts, MiniBatch, MiniBatchId, MiniBatchSet,
    NodeId, Restored, Source, UnknownKeys,
};
use crate::protocol::{Order, WorkersEnd};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The state of one job.
#[derive(Debug)]
pub struct JobMachine {
    pub(super) policy: RetryPolicy,
    pub(super) sources: Vec<Source>,
    pub(super) began: Timestamp,
    pub(super) now: Duration,
    pub(super) outputs: Vec<JobOutput>,
    /// The nodes that take part.
    pub(super) nodes: BTreeMap<NodeId, JobNode>,
    /// How many nodes have ever joined.
    pub(super) joined: u32,
    /// Attempts of an earlier leader at mini-batches that are not planned yet.
    pub(super) unplanned: BTreeMap<MiniBatchId, Vec<UnplannedAttempt>>,
    /// Until when nodes may offer attempts of an earlier leader before anything is granted.
    pub(super) offers_until: Duration,
    /// The mini-batches before this number are those of the earlier leaders.
    pub(super) same_plan_until: u64,
    /// Mini-batches that were granted to nodes.
    pub(super) granted: HashMap<MiniBatchId, GrantedMiniBatch>,
    /// How long attempts take.
    pub(super) times: AttemptTimes,
    /// Near the job's end: when to look next for mini-batches that take too long.
    pub(super) slow_check: Option<Duration>,
    /// Mini-batches that take too long and wait for a twin, the slowest first.
    pub(super) slow: Vec<MiniBatchId>,
    /// Mini-batches that wait for a node.
    pub(super) queue: MiniBatchQueue,
    /// How many attempts have begun, including those whose mini-batch could not be loaded.
    pub(super) begun: u64,
    /// Until when the leader does not pause, because an attempt has failed.
    pub(super) no_pause_until: Duration,
    /// The last attempts of mini-batches that succeeded or failed for good, and wait for the
    /// journal.
    pub(super) committing: HashMap<MiniBatchId, Committing>,
    /// Whether the committer has failed, so that nothing can be committed any longer.
    pub(super) commits_failed: bool,
    /// How many items failed in the successful attempts in `committing`.
    pub(super) unwritten_failures: u64,
    /// How many of the successful attempts in `committing` returned fewer rows than items.
    pub(super) unwritten_short: u64,
    /// How many results arrived after the leader had already decided how their attempt ended.
    pub(super) late_results: u64,
    /// Mini-batches that an earlier run of the job completed.
    pub(super) done_before: MiniBatchSet,
    /// The number of mini-batches in `done_before`.
    pub(super) restored: u64,
    /// Whether a worker was asked to end normally in this run, or ended normally in an earlier one.
    pub(super) shutdown_requested: bool,
    /// Whether a worker that was asked to end normally has done so.
    pub(super) has_shut_down: bool,
    pub(super) planned: u64,
    pub(super) planned_items: u64,
    pub(super) plan_finished: bool,
    /// The last notice before the first mini-batch. It may explain why there is no mini-batch.
    pub(super) found_nothing: Option<String>,
    /// How much of the inputs is planned, in thousandths. `None` if it is unknown.
    plan_share: Option<u16>,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// How many of the succeeded mini-batches returned fewer rows than items (docs/parallel-run-step.md W4).
    pub(super) short: u64,
    pub(in super::super) items: ItemCounts,
    pub(super) rows: u64,
    /// Statistics of inference in all attempts of this run.
    pub(super) inference: InferenceStats,
    /// When the job last made progress (rule A2 in docs/parallel-run-step.md).
    pub(super) last_progress: Duration,
    /// When an object of a store last arrived.
    pub(super) last_arrival: Duration,
    /// The first failure of `init` since a worker's `init` last succeeded (rules I1 and I2).
    pub(super) init_failure: Option<FirstFailure>,
    /// Failures of `init` on lost nodes since a worker's `init` last succeeded.
    pub(super) lost_init_failures: u32,
    /// Since when `init` keeps failing on all nodes. `None` if it does not.
    pub(super) hopeless_since: Option<Duration>,
    /// Whether the user was notified that no new workers are started.
    pub(super) reported_init_stop: bool,
    pub(super) reported_spawn_trouble: bool,
    /// Since when the job has been waiting for other jobs, without a running worker. `None` if it does not
    /// wait.
    pub(super) waits_since: Option<Duration>,
    /// Whether the user was notified that other jobs leave room for fewer workers than wanted.
    pub(super) reported_no_room: bool,
    pub(super) warned_of_surplus: bool,
    /// The backends of nodes that compute models in another way than the job.
    pub(super) mixed_backends: BTreeSet<String>,
    /// The nodes that could not fetch an object, and of which the user knows this.
    pub(super) reported_unfetched: BTreeSet<NodeId>,
    /// How many failures were reported.
    pub(super) failures_reported: u64,
    /// How long the job has waited for its turn without a running worker.
    pub(super) waited: Duration,
    /// How many values of committed rows are null because JSON cannot represent them.
    pub(super) null_numbers: u64,
    /// Keys of JSON lines that match no column, by the name of the input.
    pub(super) unknown_keys: BTreeMap<String, UnknownKeys>,
    pub(super) first_failure: Option<FirstFailure>,
    pub(super) ending: Option<JobEnding>,
    /// Whether a tick has arrived since the last decision.
    pub(super) ticked: bool,
    pub(super) finished: bool,
}

impl JobMachine {
    /// A job before its first message. `began` is the time at which `now` is zero.
    ///
    /// `restored` is what an earlier run of the job completed: these mini-batches count, and do not run
    /// again.
    pub fn new(
        policy: RetryPolicy,
        sources: Vec<Source>,
        began: Timestamp,
        restored: Restored,
    ) -> Self {
        Self {
            policy,
            sources,
            began,
            now: Duration::ZERO,
            outputs: Vec::new(),
            nodes: BTreeMap::new(),
            joined: 0,
            unplanned: BTreeMap::new(),
            offers_until: Duration::ZERO,
            same_plan_until: u64::MAX,
            granted: HashMap::new(),
            times: AttemptTimes::default(),
            slow_check: None,
            slow: Vec::new(),
            queue: MiniBatchQueue::default(),
            begun: 0,
            no_pause_until: Duration::ZERO,
            committing: HashMap::new(),
            commits_failed: false,
            unwritten_failures: 0,
            unwritten_short: 0,
            late_results: 0,
            restored: restored.ended(),
            shutdown_requested: restored.has_shut_down,
            has_shut_down: restored.has_shut_down,
            done_before: restored.finished,
            planned: 0,
            planned_items: 0,
            plan_finished: false,
            found_nothing: None,
            plan_share: None,
            succeeded: restored.succeeded,
            failed: restored.failed,
            short: restored.short,
            items: restored.items,
            rows: restored.rows,
            inference: InferenceStats::default(),
            last_progress: Duration::ZERO,
            last_arrival: Duration::ZERO,
            init_failure: None,
            lost_init_failures: 0,
            hopeless_since: None,
            reported_init_stop: false,
            reported_spawn_trouble: false,
            waits_since: None,
            reported_no_room: false,
            warned_of_surplus: false,
            reported_unfetched: BTreeSet::new(),
            failures_reported: 0,
            waited: Duration::ZERO,
            mixed_backends: BTreeSet::new(),
            null_numbers: 0,
            unknown_keys: BTreeMap::new(),
            first_failure: None,
            ending: None,
            ticked: false,
            finished: false,
        }
    }

    /// Handles a message. Returns actions and orders, in order. `now` never decreases.
    pub fn handle(&mut self, message: JobMessage, now: Duration) -> Vec<JobOutput> {
        self.now = now;
        if !self.finished {
            self.on_message(message);
        }
        std::mem::take(&mut self.outputs)
    }

    /// Makes decisions based on all messages so far. Returns actions and orders, in order. If an order [wants
    /// an answer](JobOutput::wants_answer), the caller must pass the node's answer to `handle`, and then
    /// call `decide` again.
    pub fn decide(&mut self) -> Vec<JobOutput> {
        if self.finished {
            return Vec::new();
        }
        let has_ticked = std::mem::take(&mut self.ticked);
        if has_ticked {
            self.check_progress();
        }
        self.check_thresholds();
        self.check_init_rules(has_ticked);
        self.want_workers();
        self.assign();
        self.check_end();
        std::mem::take(&mut self.outputs)
    }

    /// Whether the job is over.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    fn on_message(&mut self, message: JobMessage) {
        match message {
            JobMessage::Planned(batches) => self.on_planned(batches),
            JobMessage::PlanShare(share) => self.plan_share = Some(share),
            JobMessage::PlanFinished => self.on_plan_finished(),
            JobMessage::PlanFailed(text) => self.fail(EndedBy::Plan, text),
            JobMessage::Arrived => self.on_arrived(),
            JobMessage::Columns(message) => self.emit(EventKind::Columns { message }),
            JobMessage::Notice(message) => self.on_notice(message),
            JobMessage::Committed(ids) => ids.into_iter().for_each(|id| self.on_committed(id)),
            JobMessage::Rejected(id, failure) => self.on_rejected(id, failure),
            JobMessage::CommitFailed(text) => self.on_commit_failed(EndedBy::Commit, text),
            JobMessage::Replaced(text) => self.on_commit_failed(EndedBy::Replaced, text),
            JobMessage::NoSpace(text) => self.fail(EndedBy::Commit, text),
            JobMessage::Cancel { reason, at_once } => self.on_cancel(reason, at_once),
            JobMessage::ShutDown => self.has_shut_down = true,
            JobMessage::NodeJoined(node, workers) => self.on_node_joined(node, workers),
            JobMessage::MixedBackends(node, backends) => self.on_mixed_backends(node, backends),
            JobMessage::NodeLost(node) => self.on_node_lost(node),
            JobMessage::Node(node, news) => self.on_news(node, news),
            JobMessage::Tick => self.check_deadlines(),
        }
    }

    /// Whether the leader should read more of the plan. It waits while the queue is full, so that its memory
    /// is bounded however large the input is.
    pub fn wants_plan(&self) -> bool {
        !self.queue.is_full(self.workers(), self.policy.queues())
    }

    /// Whether an earlier run of the job completed this mini-batch.
    pub fn was_done_before(&self, id: MiniBatchId) -> bool {
        self.done_before.contains(id)
    }

    /// Whether the committer should write its results without delay. True if the job waits for nothing else,
    /// or if these results decide whether the job continues.
    pub fn wants_commits(&self) -> bool {
        self.awaits_commits_only() || self.commits_would_end_it()
    }

    /// Whether the job waits for nothing but commits.
    pub(in super::super) fn awaits_commits_only(&self) -> bool {
        !self.committing.is_empty()
            && (self.plan_finished || self.ending.is_some())
            && self.queue.is_empty()
            && self.granted.is_empty()
    }

    fn on_planned(&mut self, batches: Vec<MiniBatch>) {
        if self.ending.is_some() || batches.is_empty() {
            return;
        }
        self.progressed();
        for mini_batch in batches {
            self.planned += 1;
            self.planned_items += mini_batch.planned_items();
            if self.done_before.contains(mini_batch.id) {
                continue;
            }
            let id = mini_batch.id;
            self.queue.push_back(PendingMiniBatch::first(mini_batch));
            self.take_over_planned(id);
        }
        self.emit_planned();
        self.check_mini_batch_limit();
    }

    fn on_notice(&mut self, message: String) {
        // A notice before the first mini-batch may explain why there is none.
        if self.planned == 0 && !self.plan_finished {
            self.found_nothing = Some(message.clone());
        }
        self.notice(message);
    }

    /// Restarts the time-out for the first mini-batch, because an object has arrived.
    fn on_arrived(&mut self) {
        self.progressed();
        self.last_arrival = self.now;
    }

    fn on_plan_finished(&mut self) {
        if self.ending.is_none() {
            self.progressed();
            self.plan_finished = true;
            self.decline_unplanned();
            self.emit_planned();
        }
    }

    fn emit_planned(&mut self) {
        self.emit(EventKind::Planned {
            mini_batches: self.planned,
            items: self.planned_items,
            finished: self.plan_finished,
            share: self.plan_share.filter(|_| !self.plan_finished),
        });
    }

    /// Records progress (A2): a part of the plan or an object arrived, a worker became ready, an attempt
    /// began or ended, or a mini-batch was written.
    pub(super) fn progressed(&mut self) {
        self.last_progress = self.now;
    }

    pub(super) fn turns(&self) -> QueueTurns {
        QueueTurns { now: self.now, begun: self.begun, workers: self.workers() }
    }

    pub(super) fn emit(&mut self, kind: EventKind) {
        self.act(JobAction::Emit(kind));
    }

    pub(super) fn act(&mut self, action: JobAction) {
        self.outputs.push(JobOutput::Do(action));
    }

    pub(super) fn order(&mut self, node: NodeId, order: Order) {
        if let Some(to) = self.nodes.get_mut(&node) {
            to.grants += u64::from(order.is_grant());
        }
        self.outputs.push(JobOutput::Order(node, order));
    }

    pub(super) fn order_end(&mut self, end: WorkersEnd) {
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.order(node, Order::End(end));
        }
    }

    pub(super) fn notice(&mut self, message: String) {
        self.emit(EventKind::Notice { message });
    }

    pub(super) fn timestamp(&self, at: Duration) -> Timestamp {
        let offset = SignedDuration::try_from(at).unwrap_or(SignedDuration::MAX);
        self.began.checked_add(offset).unwrap_or(Timestamp::MAX)
    }
}
