//! A job on one computer, for tests: the job's state machine and the node's state machine, connected in the
//! same way as the driver connects a job's state machine to a running node.

use super::connected_job::{ConnectedJob, ConnectedOutcome, OrderTarget};
use super::job::JobMachine;
use super::types::Addressed;
use super::{MachineAction, MachineMessage, RetryPolicy};
use crate::model::{NodeId, Restored, Source, WorkerId};
use crate::protocol::{NodeReport, NodeReports, Order, WorkersStanding};
use jiff::Timestamp;
use sandmill_node::machine::{NodeMachine, NodeMessage, NodeOutput};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The actions that the caller has not received yet, in order.
type Actions = Rc<RefCell<Vec<MachineAction>>>;

/// A node that consists of its state machine only.
#[derive(Debug)]
struct PureNode {
    machine: NodeMachine,
    workers: u32,
    now: Duration,
    actions: Actions,
}

impl PureNode {
    fn handle(&mut self, message: NodeMessage) -> Vec<NodeReport> {
        let outputs = self.machine.handle(message, self.now);
        let mut reported = self.follow(outputs);
        reported.push(NodeReport::Changed);
        reported
    }

    fn follow(&mut self, outputs: Vec<NodeOutput>) -> Vec<NodeReport> {
        let mut reported = Vec::new();
        for output in outputs {
            match output {
                NodeOutput::Do(action) => self.actions.borrow_mut().push(action.into()),
                NodeOutput::Report(news) => reported.push(NodeReport::News(news)),
            }
        }
        reported
    }
}

impl OrderTarget for PureNode {
    fn first_nodes(&self) -> Vec<(NodeId, u32)> {
        vec![(NodeId::ONLY, self.workers)]
    }

    fn obey(&mut self, _: NodeId, order: Order) -> Vec<NodeReport> {
        let outputs = self.machine.obey(order, self.now);
        self.follow(outputs)
    }

    fn tick(&mut self) -> Vec<NodeReports> {
        vec![NodeReports::of_only_node(self.handle(NodeMessage::Tick))]
    }

    fn standing(&self, _: NodeId) -> Option<WorkersStanding> {
        Some(self.machine.standing())
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.machine.next_deadline()
    }
}

/// The state of a job on one computer.
#[derive(Debug)]
pub(super) struct LocalMachine {
    joined: ConnectedJob<PureNode>,
    actions: Actions,
}

impl LocalMachine {
    /// A job before its first message. `began` is the time at which `now` is zero.
    ///
    /// `restored` is what an earlier run of the job completed: these mini-batches count, and do not run
    /// again.
    pub(super) fn new(
        policy: RetryPolicy,
        sources: Vec<Source>,
        began: Timestamp,
        restored: Restored,
    ) -> Self {
        let actions = Actions::default();
        let machine = NodeMachine::new(policy.node_policy(), restored.next_worker);
        let workers = policy.workers;
        let node = PureNode { machine, workers, now: Duration::ZERO, actions: actions.clone() };
        let job = JobMachine::new(policy, sources, began, restored);
        Self { joined: ConnectedJob::new(job, node), actions }
    }

    /// Handles a message. Returns the actions, in order. `now` never decreases.
    pub(super) fn handle(&mut self, message: MachineMessage, now: Duration) -> Vec<MachineAction> {
        if self.joined.job().is_finished() {
            return Vec::new();
        }
        self.joined.node.now = now;
        let actions = self.actions.clone();
        let mut out = |outcome: ConnectedOutcome| match outcome {
            ConnectedOutcome::Do(action) => actions.borrow_mut().push(action.into()),
            ConnectedOutcome::Reported(reported) => {
                unreachable!("a pure node reports only news: {reported:?}")
            }
        };
        match Addressed::from(message) {
            Addressed::Job(message) => self.joined.send(message, now, &mut out),
            Addressed::Node(message) => {
                let reported = NodeReports::of_only_node(self.joined.node.handle(message));
                self.joined.receive(reported, now, &mut out);
            }
            Addressed::Both => self.joined.tick(now, &mut out),
        }
        self.actions.take()
    }

    /// The job's own state machine.
    pub(super) fn job(&self) -> &JobMachine {
        self.joined.job()
    }

    /// When [`MachineMessage::Tick`] is due at the latest, if nothing else happens. Always set until the job
    /// is over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.joined.next_deadline()
    }

    /// See [`JobMachine::wants_plan`].
    pub(super) fn wants_plan(&self) -> bool {
        self.job().wants_plan()
    }

    /// See [`JobMachine::wants_commits`].
    pub(super) fn wants_commits(&self) -> bool {
        self.job().wants_commits()
    }

    /// Whether the leader may pause: no worker runs out of work meanwhile, and probably no worker waits for
    /// the leader's decision.
    pub(super) fn may_pause(&self) -> bool {
        self.job().awaits_no_decision() && self.joined.node.machine.is_supplied()
    }

    /// The workers whose guest is inside a call that has a time-out, and for how long.
    pub(super) fn inside_guests(
        &self,
        now: Duration,
    ) -> impl Iterator<Item = (WorkerId, Duration)> {
        self.joined.node.machine.inside_guests(now)
    }
}
