//! Simulates a job on several nodes, with delayed messages. At any moment, a node may be lost together with
//! all messages from and to it, and another node may join. The invariants: each mini-batch ends once, the job
//! does not wait for lost nodes, and no two workers have the same mini-batch. And once there are no further
//! faults, the job ends.

use super::super::job::{JobAction, JobMachine, JobMessage, JobOutput, SettledMiniBatch};
use super::super::{RetryPolicy, simulation::dice::SimulationRandom};
use super::steps::{report, success};
use super::world::{ITEMS, random_policy};
use crate::event::EventKind;
use crate::model::{
    CallStats, EndedBy, ErrorThreshold, Failure, FailureKind, JobResult, MiniBatch, MiniBatchId,
    MiniBatchWork, NodeId, Restored, WorkerExit, WorkerId,
};
use crate::protocol::{Assignment, NodeNews, Order};
use jiff::Timestamp;
use sandmill_node::machine::{NodeAction, NodeMachine, NodeMessage, NodeOutput};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The maximum number of nodes at the same time.
const MAX_NODES: usize = 3;

#[derive(Debug, Default)]
struct ClusterWorker {
    is_ready: bool,
    has_started: bool,
    awaits_decision: bool,
    asked_to_end: bool,
    is_killed: bool,
    inbox: VecDeque<Assignment>,
}

#[derive(Debug)]
struct SimulatedNode {
    machine: NodeMachine,
    /// Orders that were sent but have not arrived at the node.
    orders: VecDeque<Order>,
    /// News that were sent but have not arrived at the leader.
    news: VecDeque<NodeNews>,
    workers: BTreeMap<WorkerId, ClusterWorker>,
}

#[derive(Debug)]
pub(super) struct Cluster {
    dice: SimulationRandom,
    policy: RetryPolicy,
    now: Duration,
    job: JobMachine,
    nodes: BTreeMap<NodeId, SimulatedNode>,
    next_node: u32,
    plan: VecDeque<MiniBatch>,
    mini_batches: u64,
    plan_reported: bool,
    committing: VecDeque<SettledMiniBatch>,
    ended: BTreeSet<MiniBatchId>,
    /// Whether a failure has decided the job's end.
    has_failed: bool,
    result: Option<JobResult>,
}

impl Cluster {
    pub(super) fn new(mut dice: SimulationRandom) -> Self {
        let mini_batches = 1 + dice.below(14);
        let batch = |id| {
            let names = (0..ITEMS).map(|_| "").collect();
            MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Files(names))
        };
        let policy = RetryPolicy {
            error_threshold: ErrorThreshold::Ignore,
            allowed_failed_count: ErrorThreshold::Ignore,
            allowed_failed_percent: crate::model::AllowedPercent::ALL,
            ..random_policy(&mut dice)
        };
        let restored = Restored::default();
        let job = JobMachine::new(policy.clone(), Vec::new(), Timestamp::UNIX_EPOCH, restored);
        let mut cluster = Self {
            dice,
            policy,
            now: Duration::ZERO,
            job,
            nodes: BTreeMap::new(),
            next_node: 0,
            plan: (0..mini_batches).map(batch).collect(),
            mini_batches,
            plan_reported: false,
            committing: VecDeque::new(),
            ended: BTreeSet::new(),
            has_failed: false,
            result: None,
        };
        cluster.join();
        cluster
    }

    pub(super) fn step(&mut self) {
        if self.result.is_some() {
            return;
        }
        let node = self.random_node();
        match (self.dice.below(16), node) {
            (0, _) => self.step_plan(),
            (1 | 2, _) => self.commit(),
            (3, _) if self.dice.one_in(8) && self.nodes.len() < MAX_NODES => self.join(),
            (4, Some(id)) if self.dice.one_in(8) => self.lose(id),
            (5, _) if self.dice.one_in(4) => self.tick(),
            (0..=8, Some(id)) => self.deliver_order(id),
            (9..=11, Some(id)) => self.deliver_news(id),
            (_, Some(id)) => self.step_random_worker(id),
            (_, None) => self.join(),
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
            if self.nodes.values().all(SimulatedNode::has_ended) {
                self.join();
            }
            self.step_plan();
            self.commit();
            for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                self.deliver_order(id);
                for worker in self.workers_of(id) {
                    self.step_worker(id, worker);
                }
                self.deliver_news(id);
            }
            if self.now == before {
                self.tick();
            }
        }
        panic!("the job does not end: {self:#?}");
    }

    fn check_end(&self, result: &JobResult) {
        match result.ended_by {
            // All mini-batches may have failed.
            None | Some(EndedBy::NothingSucceeded) => {
                assert_eq!(self.ended.len() as u64, self.mini_batches, "each has ended");
                let ended = result.succeeded_mini_batches + result.failed_mini_batches;
                assert_eq!(ended, self.mini_batches, "{result:#?}");
            }
            by => assert!(self.has_failed, "ended by {by:?}: {result:#?}"),
        }
        // A killed worker that does not end may remain, because the node no longer waits for it.
        let workers = self.nodes.values().flat_map(|node| node.workers.values());
        let live = workers.filter(|worker| !worker.is_killed).count();
        assert_eq!(live, 0, "the job ended before its workers: {self:#?}");
    }

    fn random_node(&mut self) -> Option<NodeId> {
        let nth = self.dice.below(self.nodes.len().max(1) as u64) as usize;
        self.nodes.keys().nth(nth).copied()
    }

    fn workers_of(&self, id: NodeId) -> Vec<WorkerId> {
        self.nodes[&id].workers.keys().copied().collect()
    }

    fn join(&mut self) {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        // Each node has its own range of worker numbers.
        let machine = NodeMachine::new(self.policy.node_policy(), id.0 * 10_000);
        let node = SimulatedNode {
            machine,
            orders: VecDeque::new(),
            news: VecDeque::new(),
            workers: BTreeMap::new(),
        };
        self.nodes.insert(id, node);
        self.send(JobMessage::NodeJoined(id, self.policy.workers));
    }

    /// Loses a node, with its work and all messages from and to it that have not arrived.
    fn lose(&mut self, id: NodeId) {
        self.nodes.remove(&id);
        self.send(JobMessage::NodeLost(id));
    }

    fn step_plan(&mut self) {
        if self.plan_reported || !self.job.wants_plan() {
            return;
        }
        if self.plan.is_empty() {
            self.plan_reported = true;
            return self.send(JobMessage::PlanFinished);
        }
        let count = (1 + self.dice.below(5) as usize).min(self.plan.len());
        let batches = self.plan.drain(..count).collect();
        self.send(JobMessage::Planned(batches));
    }

    fn commit(&mut self) {
        let Some(settled) = self.committing.pop_front() else { return };
        let id = settled.report.id;
        assert!(self.ended.insert(id), "{id} ended twice");
        self.send(JobMessage::Committed(vec![id]));
    }

    fn tick(&mut self) {
        let node_deadlines = self.nodes.values().filter_map(|node| node.machine.next_deadline());
        let deadline = self.job.next_deadline().into_iter().chain(node_deadlines).min();
        self.now = self.now.max(deadline.unwrap_or_default());
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.send_to_node(id, NodeMessage::Tick);
        }
        self.send(JobMessage::Tick);
    }

    fn deliver_order(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(order) = node.orders.pop_front() {
            self.now += Duration::from_millis(1);
            let outputs = node.machine.obey(order, self.now);
            self.follow(id, outputs);
        }
    }

    fn deliver_news(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some(news) = node.news.pop_front() {
            self.send(JobMessage::Node(id, news));
        }
    }

    fn send(&mut self, message: JobMessage) {
        self.now += Duration::from_millis(1);
        let mut outputs = self.job.handle(message, self.now);
        outputs.extend(self.job.decide());
        for output in outputs {
            match output {
                JobOutput::Do(JobAction::Commit(settled)) => self.committing.push_back(settled),
                JobOutput::Do(JobAction::Emit(EventKind::WindingDown { reason })) => {
                    // News about earlier failures may arrive only now.
                    let is_from_before = reason.starts_with("init failed");
                    assert!(!self.dice.calm || is_from_before, "nothing went wrong: {reason}");
                    self.has_failed = true;
                }
                JobOutput::Do(JobAction::Emit(_)) => {}
                JobOutput::Do(JobAction::Finish(result)) => self.result = Some(*result),
                JobOutput::Order(id, order) => {
                    let node = self.nodes.get_mut(&id).expect("a node that is not lost");
                    node.orders.push_back(order);
                }
            }
        }
    }

    fn send_to_node(&mut self, id: NodeId, message: NodeMessage) {
        self.now += Duration::from_millis(1);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let outputs = node.machine.handle(message, self.now);
        self.follow(id, outputs);
    }

    fn follow(&mut self, id: NodeId, outputs: Vec<NodeOutput>) {
        let mut spawned = Vec::new();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for output in outputs {
            match output {
                NodeOutput::Report(news) => node.news.push_back(news),
                NodeOutput::Do(NodeAction::Spawn(worker, _)) => {
                    let is_new = node.workers.insert(worker, ClusterWorker::default()).is_none();
                    assert!(is_new, "{worker} is started twice");
                    spawned.push(worker);
                }
                NodeOutput::Do(action) => node.act(action),
            }
        }
        node.news.push_back(NodeNews::Standing(node.machine.standing()));
        self.check_held();
        for worker in spawned {
            self.send_to_node(id, NodeMessage::Spawned(worker, 1));
        }
    }

    /// Checks that no two live workers have the same mini-batch, and no live worker has one that has ended.
    fn check_held(&self) {
        let mut held = BTreeSet::new();
        let workers = self.nodes.values().flat_map(|node| node.workers.values());
        for worker in workers.filter(|worker| !worker.is_killed) {
            for assignment in &worker.inbox {
                let id = assignment.mini_batch.id;
                assert!(held.insert(id), "{id} is on two workers: {self:#?}");
                assert!(!self.ended.contains(&id), "{id} has ended and runs again");
                assert!(assignment.attempt <= self.policy.max_try);
            }
        }
    }

    fn step_random_worker(&mut self, id: NodeId) {
        let workers = self.workers_of(id);
        let nth = self.dice.below(workers.len().max(1) as u64) as usize;
        if let Some(worker) = workers.get(nth) {
            self.step_worker(id, *worker);
        }
    }

    fn step_worker(&mut self, id: NodeId, number: WorkerId) {
        let dies = self.dice.one_in(24);
        let fails = self.dice.one_in(6);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(worker) = node.workers.get_mut(&number) else { return };
        let is_over = worker.asked_to_end && worker.inbox.is_empty();
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
        if worker.awaits_decision {
            return;
        }
        let Some(assignment) = worker.inbox.front().cloned() else { return };
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

impl SimulatedNode {
    fn has_ended(&self) -> bool {
        self.machine.standing().is_ending && self.workers.is_empty()
    }

    /// Applies an action to a running worker.
    fn act(&mut self, action: NodeAction) {
        let (NodeAction::Spawn(id, _)
        | NodeAction::Assign(id, _)
        | NodeAction::AssignFirst(id, _)
        | NodeAction::GoOn(id)
        | NodeAction::Shutdown(id)
        | NodeAction::Kill(id)) = &action;
        let Some(worker) = self.workers.get_mut(id) else { return };
        match action {
            NodeAction::Assign(_, assignment) => worker.inbox.push_back(assignment),
            NodeAction::AssignFirst(_, assignment) => {
                worker.inbox.push_front(assignment);
                worker.awaits_decision = false;
            }
            NodeAction::GoOn(_) => worker.awaits_decision = false,
            NodeAction::Shutdown(_) => {
                worker.asked_to_end = true;
                worker.awaits_decision = false;
            }
            NodeAction::Kill(_) => worker.is_killed = true,
            NodeAction::Spawn(..) => {}
        }
    }
}
