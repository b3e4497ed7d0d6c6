//! The machine of a job: its state, and the doors to it.

use super::node::{Granted, Node};
use super::queue::{Pending, Queue, Turns};
use super::types::{Committing, Ending, JobAction, JobMessage, JobOutput};
use crate::event::EventKind;
use crate::machine::Policy;
use crate::model::{
    EndedBy, FirstFailure, InferenceStats, ItemCounts, MiniBatch, MiniBatchId, MiniBatchSet,
    NodeId, Restored, Source, UnknownKeys,
};
use crate::protocol::{End, Order};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The state of one job.
#[derive(Debug)]
pub struct JobMachine {
    pub(super) policy: Policy,
    pub(super) sources: Vec<Source>,
    pub(super) began: Timestamp,
    pub(super) now: Duration,
    pub(super) outputs: Vec<JobOutput>,
    /// Nodes that take part.
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// Attempts that nodes have.
    pub(super) granted: HashMap<MiniBatchId, Granted>,
    /// Mini-batches that wait for a node.
    pub(super) queue: Queue,
    /// Attempts that have begun, be it to load their mini-batch only.
    pub(super) begun: u64,
    /// Until when the leader does not look away, because an attempt has failed.
    pub(super) rough_until: Duration,
    /// Attempts, ended well or for good, that wait for the journal.
    pub(super) committing: HashMap<MiniBatchId, Committing>,
    /// Of those that ended well: items that failed, and mini-batches that came back short.
    pub(super) unwritten_failures: u64,
    pub(super) unwritten_short: u64,
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
    /// How much of the inputs is planned, in thousandths, where that is known.
    plan_share: Option<u16>,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Of those that succeeded: with fewer rows than items (prs-semantics W4).
    pub(super) short: u64,
    pub(in super::super) items: ItemCounts,
    pub(super) rows: u64,
    /// Of all attempts of this run.
    pub(super) inference: InferenceStats,
    /// When something last moved (A2).
    pub(super) moved: Duration,
    /// When objects of a store came last.
    pub(super) arrived: Duration,
    /// The first failure of `init` since the last one that succeeded (I1, I2).
    pub(super) init_failure: Option<FirstFailure>,
    /// Whether it was told that no new workers are started.
    pub(super) told_init_stop: bool,
    pub(super) told_spawn_trouble: bool,
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
    /// Whether the clock was looked at since the last decision.
    pub(super) ticked: bool,
    pub(super) finished: bool,
}

impl JobMachine {
    /// A job before its first message. `began` is the time that `now` counts from.
    ///
    /// `restored` is what an earlier run of the job left done: it counts, and is not done again.
    pub fn new(policy: Policy, sources: Vec<Source>, began: Timestamp, restored: Restored) -> Self {
        Self {
            policy,
            sources,
            began,
            now: Duration::ZERO,
            outputs: Vec::new(),
            nodes: BTreeMap::new(),
            granted: HashMap::new(),
            queue: Queue::default(),
            begun: 0,
            rough_until: Duration::ZERO,
            committing: HashMap::new(),
            unwritten_failures: 0,
            unwritten_short: 0,
            late: 0,
            restored: restored.ended(),
            closed: restored.closed,
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
            moved: Duration::ZERO,
            arrived: Duration::ZERO,
            init_failure: None,
            told_init_stop: false,
            told_spawn_trouble: false,
            waits_since: None,
            told_no_room: false,
            warned_of_surplus: false,
            failures_told: 0,
            waited: Duration::ZERO,
            null_numbers: 0,
            unknown_keys: BTreeMap::new(),
            first_failure: None,
            ending: None,
            ticked: false,
            finished: false,
        }
    }

    /// Takes in what happened. Returns what to do and to order, in order. `now` never goes back.
    pub fn take_in(&mut self, message: JobMessage, now: Duration) -> Vec<JobOutput> {
        self.now = now;
        if !self.finished {
            self.on_message(message);
        }
        std::mem::take(&mut self.outputs)
    }

    /// Decides what follows from all that was taken in. Returns what to do and to order, in order. What nodes
    /// say to [orders](JobOutput::wants_answer) is to be taken in, and decided on again.
    pub fn decide(&mut self) -> Vec<JobOutput> {
        if self.finished {
            return Vec::new();
        }
        if std::mem::take(&mut self.ticked) {
            self.check_progress();
        }
        self.check_thresholds();
        self.check_init_rules();
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
            JobMessage::CommitFailed(text) => self.on_commit_failed(text),
            JobMessage::NoSpace(text) => self.fail(EndedBy::Commit, text),
            JobMessage::Cancel { reason, at_once } => self.on_cancel(reason, at_once),
            JobMessage::NodeJoined(node) => self.on_node_joined(node),
            JobMessage::NodeLost(node) => self.on_node_lost(node),
            JobMessage::Node(node, news) => self.on_news(node, news),
            JobMessage::Tick => self.check_deadlines(),
        }
    }

    /// Whether more of the plan is welcome. Holds memory flat however large the input.
    pub fn wants_plan(&self) -> bool {
        !self.queue.is_full(self.workers())
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
            share: self.plan_share.filter(|_| !self.plan_finished),
        });
    }

    /// Something moved (A2): a part of the plan or of its objects came, a worker became ready, an attempt began
    /// or ended, a mini-batch was written.
    pub(super) fn progressed(&mut self) {
        self.moved = self.now;
    }

    pub(super) fn turns(&self) -> Turns {
        Turns { now: self.now, begun: self.begun, workers: self.workers() }
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

    pub(super) fn order_end(&mut self, end: End) {
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
