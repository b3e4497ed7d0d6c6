//! The nodes of a simulated cluster, and their workers.

use super::cluster::Cluster;
use super::dice::SimulationRandom;
use super::steps::{report, success};
use super::world::ITEMS;
use crate::model::{
    AttemptReport, AttemptUsage, CallStats, Failure, FailureKind, MiniBatchId, NodeId, WorkerExit,
    WorkerId,
};
use crate::protocol::store::UnfetchedObject;
use crate::protocol::{Assignment, ContinuedAttempt, NodeNews, Order};
use sandmill_node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct ClusterWorker {
    is_ready: bool,
    has_started: bool,
    awaits_decision: bool,
    asked_to_end: bool,
    pub(super) is_killed: bool,
    /// Whether the worker does nothing until it is killed.
    hangs: bool,
    inbox: VecDeque<Assignment>,
}

/// A clock that does not show the time of the leader, and runs up to a tenth faster or slower.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeClock {
    /// What it shows at the beginning.
    ahead: Duration,
    /// Its speed.
    percent: u32,
}

impl NodeClock {
    pub(super) fn new(dice: &mut SimulationRandom) -> Self {
        let percent = 90 + dice.below(21) as u32;
        Self { ahead: Duration::from_millis(dice.below(100_000)), percent }
    }

    /// What it shows at this time of the leader.
    pub(super) fn at(&self, now: Duration) -> Duration {
        self.ahead + now * self.percent / 100
    }

    /// The time of the leader at which it shows this.
    fn when(&self, shown: Duration) -> Duration {
        let shown = shown.saturating_sub(self.ahead);
        // Rounded up, so that the clock then shows at least this.
        shown * 100 / self.percent + Duration::from_nanos(2)
    }
}

#[derive(Debug)]
pub(super) struct SimulatedNode {
    pub(super) machine: NodeMachine,
    pub(super) clock: NodeClock,
    /// Orders that were sent but have not arrived at the node.
    pub(super) orders: VecDeque<Order>,
    /// News that were sent but have not arrived at the leader.
    pub(super) news: VecDeque<NodeNews>,
    pub(super) workers: BTreeMap<WorkerId, ClusterWorker>,
    /// The attempts that the leader has cancelled, and that the node knows of.
    pub(super) cancelled: BTreeSet<(MiniBatchId, u32)>,
    /// The attempts that the node has returned to the leader. A worker that still has them is killed before it begins
    /// them.
    returned: BTreeSet<(MiniBatchId, u32)>,
    /// Attempts that the node has returned, or that were cancelled, and that it got again for another worker. The worker here
    /// is killed before it begins them.
    stale: BTreeSet<(WorkerId, MiniBatchId, u32)>,
    /// The successes on this node. The node does not know which of them are committed.
    results: Vec<(WorkerId, Box<AttemptReport>)>,
    /// Whether the node leaves as soon as its workers have ended.
    pub(super) is_draining: bool,
    /// Whether its disk is full.
    pub(super) is_full: bool,
}

impl SimulatedNode {
    pub(super) fn new(machine: NodeMachine, clock: NodeClock) -> Self {
        Self {
            machine,
            clock,
            orders: VecDeque::new(),
            news: VecDeque::new(),
            workers: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            returned: BTreeSet::new(),
            stale: BTreeSet::new(),
            results: Vec::new(),
            is_draining: false,
            is_full: false,
        }
    }

    /// When the node wants to be woken, by the leader's clock.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.machine.next_deadline().map(|shown| self.clock.when(shown))
    }

    /// Works for another leader. What was on its way to the earlier one is lost, except results. `is_gone` decides whether
    /// the rows of a result are gone.
    pub(super) fn follow_leader(&mut self, now: Duration, is_gone: &mut dyn FnMut() -> bool) {
        self.orders.clear();
        // The later leader may grant them again.
        self.returned.append(&mut self.cancelled);
        let mut result = |(worker, report): &(WorkerId, Box<AttemptReport>)| match is_gone() {
            true => NodeNews::Returned(vec![(report.id, report.attempt)]),
            false => NodeNews::Finished {
                worker: *worker,
                age: Duration::ZERO,
                has_run: true,
                usage: AttemptUsage::default(),
                report: report.clone(),
            },
        };
        let results: Vec<NodeNews> = self.results.iter().map(&mut result).collect();
        let ended = self.results.iter().map(|(_, report)| ContinuedAttempt {
            id: report.id,
            attempt: report.attempt,
            runs_on: None,
            age: Duration::ZERO,
        });
        let mut continued = self.machine.follow_leader(self.clock.at(now));
        continued.extend(ended);
        let mut kept = results.iter().map(|news| !matches!(news, NodeNews::Returned(_)));
        self.results.retain(|_| kept.next().unwrap_or_default());
        self.news = VecDeque::from([NodeNews::Continues(continued)]);
        self.news.extend(results);
        self.news.push_back(NodeNews::Standing(self.machine.standing()));
    }

    /// Whether the leader does not know yet what the workers have from an earlier leader.
    pub(super) fn is_offering(&self) -> bool {
        self.news.iter().any(|news| matches!(news, NodeNews::Continues(_)))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.machine.standing().is_ending && self.workers.is_empty()
    }

    fn live_workers(&self) -> impl Iterator<Item = (WorkerId, &ClusterWorker)> {
        let workers = self.workers.iter().filter(|(_, worker)| !worker.is_killed);
        workers.map(|(id, worker)| (*id, worker))
    }

    /// The attempts of live workers that are neither cancelled nor returned.
    pub(super) fn attempts(&self) -> impl Iterator<Item = (MiniBatchId, u32)> {
        let held = self.live_workers().flat_map(move |(by, worker)| {
            let names = worker.inbox.iter().map(name_of);
            names.filter(move |(id, attempt)| !self.stale.contains(&(by, *id, *attempt)))
        });
        held.filter(move |(id, attempt)| {
            let (id, attempt) = (*id, *attempt);
            let is_ordered = self.orders.contains(&Order::Cancel { id, attempt });
            let is_out = |set: &BTreeSet<_>| set.contains(&(id, attempt));
            !is_ordered && !is_out(&self.cancelled) && !is_out(&self.returned)
        })
    }

    /// Checks that no worker runs an attempt that the node knows to be cancelled, or that it has returned.
    pub(super) fn check_cancelled(&self) {
        let first =
            self.live_workers().filter_map(|(by, worker)| Some((by, worker.inbox.front()?)));
        for (by, attempt) in first.map(|(by, first)| (by, name_of(first))) {
            let is_out = self.cancelled.contains(&attempt)
                || self.returned.contains(&attempt)
                || self.stale.contains(&(by, attempt.0, attempt.1));
            assert!(!is_out, "{attempt:?} must not run: {self:#?}");
        }
    }

    /// Checks that an order grants no attempt that the node already has, or has had before it was cancelled. The last number
    /// that a mini-batch may have is granted again, because there is no next one.
    pub(super) fn check_order(&self, order: &Order, max_try: u32) {
        let held: BTreeSet<(MiniBatchId, u32)> =
            self.attempts().chain(self.orders.iter().flat_map(granted_by)).collect();
        for attempt in granted_by(order) {
            let was_cancelled = self.cancelled.contains(&attempt) && attempt.1 < max_try;
            let is_new = !held.contains(&attempt) && !was_cancelled;
            assert!(is_new, "{attempt:?} is granted twice to a node: {self:#?}");
        }
    }

    /// Carries out what the node's state machine decided. Returns the workers that were started. Adds to `killed` the
    /// attempts that a kill ended.
    pub(super) fn follow(
        &mut self,
        outputs: Vec<NodeOutput>,
        killed: &mut BTreeSet<(WorkerId, MiniBatchId, u32)>,
    ) -> Vec<WorkerId> {
        let mut spawned = Vec::new();
        for output in outputs {
            match output {
                NodeOutput::Report(news) => {
                    match &news {
                        NodeNews::Returned(attempts) => self.returned.extend(attempts),
                        NodeNews::Finished { worker, report, .. } if report.outcome.is_ok() => {
                            self.results.push((*worker, report.clone()));
                        }
                        _ => {}
                    }
                    self.news.push_back(news);
                }
                NodeOutput::Do(NodeAction::Spawn(worker, _)) => {
                    assert!(!self.is_full, "{worker} is started although the disk is full");
                    let is_new = self.workers.insert(worker, ClusterWorker::default()).is_none();
                    assert!(is_new, "{worker} is started twice");
                    spawned.push(worker);
                }
                NodeOutput::Do(NodeAction::Kill(id)) => {
                    let Some(worker) = self.workers.get_mut(&id) else { continue };
                    worker.is_killed = true;
                    let ended = worker.inbox.iter();
                    killed.extend(ended.map(|ended| (id, ended.mini_batch.id, ended.attempt)));
                }
                NodeOutput::Do(action) => self.act(action),
            }
        }
        self.news.push_back(NodeNews::Standing(self.machine.standing()));
        spawned
    }

    /// A worker gets an attempt that the node may have returned. Workers that still have it keep their copies until they are
    /// killed.
    fn get_again(&mut self, (id, attempt): (MiniBatchId, u32)) {
        let was_returned = self.returned.remove(&(id, attempt));
        if self.cancelled.remove(&(id, attempt)) || was_returned {
            let has = |worker: &ClusterWorker| {
                worker.inbox.iter().any(|held| name_of(held) == (id, attempt))
            };
            let old = self.workers.iter().filter(|(_, worker)| has(worker));
            self.stale.extend(old.map(|(by, _)| (*by, id, attempt)));
        }
    }

    /// Applies an action to a running worker.
    fn act(&mut self, action: NodeAction) {
        let (NodeAction::Spawn(id, _)
        | NodeAction::Assign(id, _)
        | NodeAction::AssignFirst(id, _)
        | NodeAction::Withdraw(id, ..)
        | NodeAction::GoOn(id)
        | NodeAction::Shutdown(id)
        | NodeAction::Kill(id)) = &action;
        if let NodeAction::Assign(_, assignment) | NodeAction::AssignFirst(_, assignment) = &action
        {
            self.get_again(name_of(assignment));
        }
        let Some(worker) = self.workers.get_mut(id) else { return };
        match action {
            NodeAction::Assign(_, assignment) => {
                assert!(!self.is_full, "an attempt begins although the disk is full");
                worker.inbox.push_back(assignment);
            }
            NodeAction::Withdraw(_, id, attempt) => {
                let place = worker.inbox.iter().position(|held| name_of(held) == (id, attempt));
                let withdrawn = place.and_then(|place| worker.inbox.remove(place));
                let has_objects = withdrawn.is_some_and(|held| !held.objects.is_empty());
                assert!(has_objects, "the worker has the attempt already");
            }
            NodeAction::AssignFirst(_, assignment) => {
                assert!(assignment.objects.is_empty(), "a waiting worker waits for objects");
                assert!(!self.is_full, "a retry begins although the disk is full");
                worker.inbox.push_front(assignment);
                worker.awaits_decision = false;
            }
            NodeAction::GoOn(_) => worker.awaits_decision = false,
            NodeAction::Shutdown(_) => {
                worker.asked_to_end = true;
                worker.awaits_decision = false;
            }
            NodeAction::Kill(_) | NodeAction::Spawn(..) => {}
        }
    }
}

fn name_of(assignment: &Assignment) -> (MiniBatchId, u32) {
    (assignment.mini_batch.id, assignment.attempt)
}

/// The attempts that an order grants.
fn granted_by(order: &Order) -> Vec<(MiniBatchId, u32)> {
    match order {
        Order::Grant(grants) => grants.iter().map(|grant| name_of(&grant.assignment)).collect(),
        Order::GrantAhead(assignments) => assignments.iter().map(name_of).collect(),
        _ => Vec::new(),
    }
}

impl Cluster {
    /// The objects of the next attempt arrive, or cannot be fetched. Returns whether something has happened.
    fn fetch(&mut self, id: NodeId, number: WorkerId, fails: bool) -> bool {
        let now = self.dice.one_in(2) || self.dice.calm;
        let finals = self.dice.below(4);
        let node = self.nodes.get_mut(&id);
        let Some(worker) = node.and_then(|node| node.workers.get_mut(&number)) else {
            return false;
        };
        let place = worker.inbox.iter().position(|next| !next.objects.is_empty());
        let Some(place) = place.filter(|_| now) else { return false };
        if !fails {
            let Some(next) = worker.inbox.get_mut(place) else { return false };
            next.objects.clear();
            let (batch, attempt) = name_of(next);
            self.send_to_node(id, NodeMessage::Fetched(number, batch, attempt));
            return true;
        }
        let Some(next) = worker.inbox.remove(place) else { return false };
        let objects = next.objects.iter().map(|object| UnfetchedObject {
            file: object.file,
            reason: "no".to_owned(),
            is_final: finals & (1 << (object.file % 2)) != 0,
            is_other: finals == 0 && object.file % 2 == 0,
        });
        let (batch, attempt) = name_of(&next);
        let message = NodeMessage::Unfetched(number, batch, attempt, objects.collect());
        self.counts.unfetched += 1;
        self.send_to_node(id, message);
        true
    }

    pub(super) fn step_worker(&mut self, id: NodeId, number: WorkerId) {
        let dies = self.dice.one_in(24);
        let fails = self.dice.one_in(6);
        let hangs = self.dice.one_in(32);
        let is_late = self.dice.one_in(3);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(worker) = node.workers.get_mut(&number) else { return };
        let is_over = worker.asked_to_end && worker.inbox.is_empty();
        if worker.is_killed && is_late && worker.has_started {
            // The worker had already sent its report when it was killed.
            worker.has_started = false;
            let Some(assignment) = worker.inbox.pop_front() else { return };
            let late = report(&assignment, ITEMS, success(ITEMS));
            return self.send_to_node(id, NodeMessage::Finished(number, late));
        }
        if dies || worker.is_killed || is_over {
            let (code, signal) = if is_over { (Some(0), None) } else { (None, Some(9)) };
            node.workers.remove(&number);
            let exit = WorkerExit { code, signal, ..WorkerExit::default() };
            return self.send_to_node(id, NodeMessage::Exited(number, exit));
        }
        if !worker.is_ready {
            worker.is_ready = !fails;
            if fails {
                worker.is_killed = true;
                let failure = Failure::new(FailureKind::ScriptError, "no");
                return self.send_to_node(id, NodeMessage::InitFailed(number, failure));
            }
            return self.send_to_node(id, NodeMessage::Ready(number, CallStats::default()));
        }
        if self.fetch(id, number, fails) {
            return;
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(worker) = node.workers.get_mut(&number) else { return };
        worker.hangs |= hangs && !worker.inbox.is_empty();
        if worker.awaits_decision || worker.hangs {
            return;
        }
        let fetched = worker.inbox.front().filter(|first| first.objects.is_empty());
        let Some(assignment) = fetched.cloned() else { return };
        if !std::mem::replace(&mut worker.has_started, true) {
            return self.send_to_node(id, NodeMessage::Started(number, assignment.mini_batch.id));
        }
        worker.has_started = false;
        worker.inbox.pop_front();
        worker.awaits_decision = fails && !assignment.is_last;
        let outcome =
            if fails { Err(Failure::new(FailureKind::ScriptError, "no")) } else { success(ITEMS) };
        let returned = if fails { 0 } else { ITEMS };
        let report = report(&assignment, returned, outcome);
        self.send_to_node(id, NodeMessage::Finished(number, report));
    }
}
