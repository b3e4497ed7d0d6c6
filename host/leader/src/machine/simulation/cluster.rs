//! Simulates a job on several nodes, with delayed messages. At any moment, a node may be lost together with all
//! messages from and to it, another node may join, and a node may be asked to end its workers and leave. Workers
//! fail, die, hang, and report too late. The clocks of nodes have other speeds than that of the leader. The leader
//! may be lost, and the log may stall or lose its replies (`cluster_log`).
//!
//! `cluster_node` has the nodes and their workers, and `cluster_checks` the invariants. Once there are no further
//! faults, the job must end.

use super::super::job::{JobAction, JobMachine, JobMessage, JobOutput};
use super::super::{RetryPolicy, simulation::dice::SimulationRandom};
use super::cluster_log::SimulatedLog;
use super::cluster_node::{NodeClock, SimulatedNode};
use super::world::{ITEMS, random_policy};
use crate::event::EventKind;
use crate::files::{FileVersion, ManifestObject};
use crate::model::{
    AllowedPercent, ErrorThreshold, JobResult, MiniBatch, MiniBatchId, MiniBatchWork, NodeId,
    Restored, WorkerId,
};
use crate::protocol::{Assignment, GrantedObject, Order, WorkersEnd};
use jiff::Timestamp;
use sandmill_node::machine::{NodeMachine, NodeMessage, NodeOutput};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A cluster of more nodes is large.
const LARGE: usize = 100;

/// How large a cluster and its job may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterSize {
    /// The most nodes at the same time.
    pub(super) nodes: usize,
    /// The most mini-batches.
    pub(super) mini_batches: u64,
}

/// How often something occurred.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClusterCounts {
    /// Leaders that took over.
    pub(super) take_overs: u32,
    pub(super) twins: u32,
    /// Attempts that were ended because their twin had succeeded.
    pub(super) cancelled: u32,
    /// Failures that did not count, because the twin continued.
    pub(super) uncounted_failures: u32,
    /// Attempts that did not begin, because their objects could not be fetched.
    pub(super) unfetched: u32,
    /// Attempts that ran on when another leader took over.
    pub(super) taken_over: u32,
    /// Nodes whose disk became full while they had attempts.
    pub(super) full: u32,
    /// How often a node with running attempts had to give back workers.
    pub(super) shrunk: u32,
    /// Receipts of attempts whose node was lost.
    pub(super) lost: u32,
    /// Receipts of attempts whose twin counts.
    pub(super) discarded: u32,
}

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) dice: SimulationRandom,
    pub(super) policy: RetryPolicy,
    pub(super) now: Duration,
    pub(super) job: JobMachine,
    pub(super) nodes: BTreeMap<NodeId, SimulatedNode>,
    next_node: u32,
    max_nodes: usize,
    /// How long it takes until a message is handled. Short in large clusters, because they have many messages.
    message_time: Duration,
    /// What the leader has not planned yet.
    plan: VecDeque<MiniBatch>,
    /// Whether nodes fetch the files of mini-batches from a store.
    has_store: bool,
    pub(super) mini_batches: u64,
    plan_reported: bool,
    pub(super) log: SimulatedLog,
    /// Attempts whose worker was killed before it reported: they must not succeed.
    pub(super) killed: BTreeSet<(WorkerId, MiniBatchId, u32)>,
    /// Whether a failure has decided the job's end.
    pub(super) has_failed: bool,
    /// Whether nodes were ordered to end their workers.
    is_ending: bool,
    pub(super) counts: ClusterCounts,
    result: Option<JobResult>,
}

impl Cluster {
    pub(super) fn new(mut dice: SimulationRandom, size: ClusterSize) -> Self {
        let mini_batches = 1 + dice.below(size.mini_batches);
        let policy = RetryPolicy {
            node_count: Some(1 + dice.below(size.nodes as u64) as u32),
            error_threshold: ErrorThreshold::Ignore,
            allowed_failed_count: ErrorThreshold::Ignore,
            allowed_failed_percent: AllowedPercent::ALL,
            ..random_policy(&mut dice)
        };
        let job = job_machine(&policy, Restored::default());
        let has_store = dice.one_in(2);
        let mut cluster = Self {
            has_store,
            dice,
            policy,
            now: Duration::ZERO,
            job,
            nodes: BTreeMap::new(),
            next_node: 0,
            max_nodes: size.nodes,
            message_time: Duration::from_micros(if size.nodes > LARGE { 5 } else { 1000 }),
            plan: plan_of(mini_batches),
            mini_batches,
            plan_reported: false,
            log: SimulatedLog::default(),
            killed: BTreeSet::new(),
            has_failed: false,
            is_ending: false,
            counts: ClusterCounts::default(),
            result: None,
        };
        cluster.join_some();
        cluster
    }

    fn join_some(&mut self) {
        let nodes = 1 + self.dice.below(self.max_nodes as u64);
        (0..nodes).for_each(|_| self.join());
    }

    /// The leader is lost, and another one continues the job from the log. It finds none of the nodes, because they end
    /// the workers of the earlier leader, and join again with other numbers.
    fn take_over(&mut self) {
        let restored = self.log.lose_leader(&mut self.dice);
        self.job = job_machine(&self.policy, restored);
        self.nodes.clear();
        self.now = Duration::ZERO;
        self.plan = plan_of(self.mini_batches);
        (self.plan_reported, self.has_failed) = (false, false);
        self.is_ending = false;
        self.counts.take_overs += 1;
        self.join_some();
    }

    pub(super) fn step(&mut self) {
        if self.result.is_some() {
            return;
        }
        let node = self.random_node();
        match (self.dice.below(32), node) {
            (0 | 1, _) => self.step_plan(),
            (2 | 3, _) => self.commit(),
            (4, _) if self.nodes.len() < self.max_nodes && self.dice.one_in(3) => self.join(),
            (4, _) if self.dice.one_in(16) => self.take_over(),
            (5, Some(id)) if self.dice.one_in(8) => self.lose(id),
            (6, Some(id)) if self.dice.one_in(16) => self.drain(id),
            (6, Some(id)) if self.dice.one_in(4) => self.change_room(id),
            (6, _) if self.dice.one_in(12) => self.replace_leader(),
            (7, Some(id)) if self.dice.one_in(16) => self.shrink_share(id),
            (7 | 8, _) => self.pass_time(),
            (0..=14, Some(id)) => self.deliver_orders(id),
            (15..=20, Some(id)) => self.deliver_much_news(id),
            (_, Some(id)) => self.step_random_worker(id),
            (_, None) => self.join(),
        }
        // The check takes long in a large cluster.
        if self.max_nodes <= LARGE || self.dice.below(64) == 0 {
            self.check_held();
        }
    }

    /// Continues without further failures: the job must end, and each mini-batch must have ended once.
    pub(super) fn settle(&mut self) {
        self.dice.calm = true;
        for _ in 0..2000 {
            if let Some(result) = &self.result {
                return self.check_end(result);
            }
            let before = self.now;
            // A node that has ended its workers starts none again.
            let is_useless = |node: &SimulatedNode| node.has_ended() && node.news.is_empty();
            if self.nodes.values().all(is_useless) {
                self.join();
            }
            self.make_room();
            self.step_plan();
            // One result would be too slow in a large cluster.
            (0..1 + self.nodes.len() / 8).for_each(|_| self.commit());
            for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                self.deliver_order(id);
                for worker in self.workers_of(id) {
                    self.step_worker(id, worker);
                }
                let news = if self.max_nodes > LARGE { 32 } else { 1 };
                (0..news).for_each(|_| self.deliver_news(id));
            }
            if self.now == before {
                self.tick();
            }
            self.check_held();
        }
        panic!("the job does not end: {self:#?}");
    }

    fn random_node(&mut self) -> Option<NodeId> {
        let nth = self.dice.below(self.nodes.len().max(1) as u64) as usize;
        self.nodes.keys().nth(nth).copied()
    }

    fn workers_of(&self, id: NodeId) -> Vec<WorkerId> {
        self.nodes.get(&id).map_or(Vec::new(), |node| node.workers.keys().copied().collect())
    }

    fn join(&mut self) {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        // Each node has its own range of worker numbers.
        let machine = NodeMachine::new(self.policy.node_policy(), id.0 * 10_000);
        let clock = NodeClock::new(&mut self.dice);
        self.nodes.insert(id, SimulatedNode::new(machine, clock));
        self.send(JobMessage::NodeJoined(id, self.policy.workers));
    }

    /// Loses a node, with its work and all messages from and to it that have not arrived.
    fn lose(&mut self, id: NodeId) {
        self.nodes.remove(&id);
        self.send(JobMessage::NodeLost(id));
    }

    /// The leader is lost, with everything that was not committed, and all messages on their way. Another one
    /// continues with what the log has. Most nodes go on with what they do, and others are lost.
    fn replace_leader(&mut self) {
        if self.has_failed || self.is_ending {
            return;
        }
        let restored = self.log.lose_leader(&mut self.dice);
        // The workers have not been asked to end.
        self.job = job_machine(&self.policy, Restored { has_shut_down: false, ..restored });
        if self.dice.one_in(2) {
            self.job.await_offers(self.now + Duration::from_millis(20));
        }
        self.plan = plan_of(self.mini_batches);
        self.plan_reported = false;
        // The order in which nodes join.
        let mut ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        if self.dice.one_in(2) {
            ids.reverse();
        }
        for id in ids {
            (0..self.dice.below(3)).for_each(|_| self.step_plan());
            // A job whose mini-batches have all failed ends without nodes. A node that has not joined by then finds the
            // job's end and leaves.
            let is_lost = self.dice.one_in(6) || self.result.is_some();
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            if is_lost || node.machine.standing().is_ending {
                self.nodes.remove(&id);
                continue;
            }
            let dice = &mut self.dice;
            node.follow_leader(self.now, &mut || dice.one_in(4));
            self.send(JobMessage::NodeJoined(id, self.policy.workers));
            (0..self.dice.below(4)).for_each(|_| self.deliver_news(id));
        }
        let running = self.nodes.values().map(|node| node.attempts().count() as u32);
        self.counts.taken_over += running.sum::<u32>();
        if self.nodes.is_empty() {
            self.join();
        }
    }

    /// The disk of a node becomes full, or has room again.
    fn change_room(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.is_full = !node.is_full;
        let is_full = node.is_full;
        self.counts.full += u32::from(is_full && node.attempts().next().is_some());
        self.send_to_node(id, NodeMessage::Full(is_full));
    }

    /// Other jobs get a part of a node's workers.
    fn shrink_share(&mut self, id: NodeId) {
        let beyond = 1 + self.dice.below(3) as u32;
        let running = |node: &SimulatedNode| node.attempts().count() as u32;
        self.counts.shrunk += self.nodes.get(&id).map_or(0, running).min(1);
        self.send_to_node(id, NodeMessage::BeyondShare(beyond));
    }

    /// Nodes whose disks are full get room, or leave when their workers have nothing to do.
    fn make_room(&mut self) {
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            let Some(node) = self.nodes.get(&id).filter(|node| node.is_full) else { continue };
            let is_idle = node.attempts().next().is_none() && node.orders.is_empty();
            // Also in a calm world.
            let dice = self.dice.below(4);
            if is_idle && !node.is_draining && dice < 2 {
                self.drain(id);
            } else if dice == 3 {
                self.change_room(id);
            }
        }
    }

    /// The node finishes what its workers run, and returns the rest. Then it leaves.
    fn drain(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.is_draining = true;
        let now = node.clock.at(self.now);
        let outputs = node.machine.obey(Order::End(WorkersEnd::Orderly), now);
        self.follow(id, outputs);
    }

    fn step_plan(&mut self) {
        if self.plan_reported || !self.job.wants_plan() {
            return;
        }
        if self.plan.is_empty() {
            self.plan_reported = true;
            return self.send(JobMessage::PlanFinished);
        }
        let most = 5 + self.max_nodes as u64 / 10;
        let count = (1 + self.dice.below(most) as usize).min(self.plan.len());
        let batches = self.plan.drain(..count).collect();
        self.send(JobMessage::Planned(batches));
    }

    /// The committer commits or rejects the first pending result, or reports what was committed.
    fn commit(&mut self) {
        if let Some(message) = self.log.step(self.now, &mut self.dice) {
            self.send(message);
        }
    }

    fn deadline(&self) -> Duration {
        let node_deadlines = self.nodes.values().filter_map(SimulatedNode::next_deadline);
        let deadlines = self.job.next_deadline().into_iter().chain(node_deadlines);
        deadlines.min().unwrap_or_default()
    }

    /// Some time passes. In rare cases, nothing happens until the next deadline.
    fn pass_time(&mut self) {
        if self.dice.one_in(64) {
            return self.tick();
        }
        self.now += Duration::from_millis(self.dice.below(1200));
        if self.deadline() <= self.now {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.now = self.now.max(self.deadline());
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.send_to_node(id, NodeMessage::Tick);
        }
        self.send(JobMessage::Tick);
        let is_handled = self.job.next_deadline().is_none_or(|at| at > self.now);
        assert!(is_handled, "a deadline stays in the past: {self:#?}");
    }

    /// Some of the orders arrive.
    fn deliver_orders(&mut self, id: NodeId) {
        (0..=self.dice.below(3)).for_each(|_| self.deliver_order(id));
    }

    /// Some of the news arrive.
    fn deliver_much_news(&mut self, id: NodeId) {
        (0..=self.dice.below(20)).for_each(|_| self.deliver_news(id));
    }

    fn deliver_order(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(order) = node.orders.pop_front() {
            self.now += self.message_time;
            if let Order::Cancel { id, attempt } = order {
                node.cancelled.insert((id, attempt));
            }
            let outputs = node.machine.obey(order, node.clock.at(self.now));
            self.follow(id, outputs);
        }
    }

    fn deliver_news(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match node.news.pop_front() {
            Some(news) => self.send(JobMessage::Node(id, news)),
            None if node.is_draining && node.has_ended() => self.lose(id),
            None => {}
        }
    }

    fn send(&mut self, message: JobMessage) {
        self.now += self.message_time;
        let mut outputs = self.job.handle(message, self.now);
        outputs.extend(self.job.decide());
        for output in outputs {
            match output {
                JobOutput::Do(JobAction::Receipt(receipt)) => self.log.receipts.write(&receipt),
                JobOutput::Do(JobAction::Commit(settled)) => {
                    self.check_settled(&settled);
                    self.log.append(settled);
                }
                JobOutput::Do(JobAction::Emit(event)) => self.observe(&event),
                JobOutput::Do(JobAction::Finish(result)) => self.result = Some(*result),
                JobOutput::Order(id, mut order) => {
                    self.is_ending |= matches!(order, Order::End(_) | Order::Retire);
                    if self.has_store {
                        add_objects(&mut order);
                    }
                    self.counts.cancelled += u32::from(matches!(order, Order::Cancel { .. }));
                    let node = self.nodes.get_mut(&id).expect("a node that is not lost");
                    node.check_order(&order, self.policy.max_try);
                    node.orders.push_back(order);
                }
            }
        }
    }

    fn observe(&mut self, event: &EventKind) {
        match event {
            EventKind::WindingDown { reason } => {
                // News about earlier failures may arrive only now.
                let is_from_before = reason.starts_with("init failed");
                assert!(!self.dice.calm || is_from_before, "nothing went wrong: {reason}");
                self.has_failed = true;
            }
            EventKind::Notice { message } if message.contains("could not be written within") => {
                self.log.receipts.give_up();
            }
            EventKind::AttemptStarted { worker, id, attempt } => {
                self.log.receipts.begin(worker, *id, *attempt);
            }
            EventKind::TwinGranted { node, first_node, .. } => {
                assert_ne!(node, first_node, "twins on one node");
                self.counts.twins += 1;
            }
            EventKind::AttemptFinished { report, will_retry: true, .. } => {
                self.counts.uncounted_failures += u32::from(report.attempt == self.policy.max_try);
            }
            _ => {}
        }
    }

    pub(super) fn send_to_node(&mut self, id: NodeId, message: NodeMessage) {
        self.now += self.message_time;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let outputs = node.machine.handle(message, node.clock.at(self.now));
        self.follow(id, outputs);
    }

    fn follow(&mut self, id: NodeId, outputs: Vec<NodeOutput>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let spawned = node.follow(outputs, &mut self.killed);
        for worker in spawned {
            self.send_to_node(id, NodeMessage::Spawned(worker, 1));
        }
    }

    fn step_random_worker(&mut self, id: NodeId) {
        let workers = self.workers_of(id);
        let nth = self.dice.below(workers.len().max(1) as u64) as usize;
        if let Some(worker) = workers.get(nth) {
            (0..=self.dice.below(3)).for_each(|_| self.step_worker(id, *worker));
        }
    }
}

/// Adds the objects of mini-batches to the attempts that an order grants.
fn add_objects(order: &mut Order) {
    let known = ManifestObject::from(FileVersion { length: 1, seconds: 1, nanos: 1 });
    let add = |assignment: &mut Assignment| {
        let batch = &assignment.mini_batch;
        let files = 0..u32::from(!batch.is_unfetched()) * ITEMS as u32;
        let open = files.filter(|file| batch.why_unfetched(*file).is_none());
        assignment.objects = open.map(|file| GrantedObject { file, known }).collect();
    };
    match order {
        Order::Grant(grants) => grants.iter_mut().for_each(|grant| add(&mut grant.assignment)),
        Order::GrantAhead(ahead) => ahead.iter_mut().for_each(add),
        _ => {}
    }
}

fn job_machine(policy: &RetryPolicy, restored: Restored) -> JobMachine {
    JobMachine::new(policy.clone(), Vec::new(), Timestamp::UNIX_EPOCH, restored)
}

/// The plan of so many mini-batches.
fn plan_of(mini_batches: u64) -> VecDeque<MiniBatch> {
    let batch = |id| {
        let names = (0..ITEMS).map(|_| "").collect();
        MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(names))
    };
    (0..mini_batches).map(batch).collect()
}
