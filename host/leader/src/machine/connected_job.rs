//! Connects a job's state machine to the job's nodes, by direct calls. A node on this machine answers within the
//! call. A node on another machine answers later.

use super::job::{JobAction, JobMachine, JobMessage, JobOutput};
use crate::model::NodeId;
use crate::protocol::{NodeNews, NodeReport, NodeReports, Order, WorkersStanding};
use std::time::Duration;

/// The interface of a job's nodes that this module needs.
pub trait OrderTarget {
    /// The nodes that take part from the beginning, with the most workers of each.
    fn first_nodes(&self) -> Vec<(NodeId, u32)>;

    /// Carries out the leader's order, or sends it to the node. Returns messages of this node for the leader,
    /// in order.
    fn obey(&mut self, node: NodeId, order: Order) -> Vec<NodeReport>;

    /// Checks whether a worker or a node is late. Returns messages for the leader, in order.
    fn tick(&mut self) -> Vec<NodeReports>;

    /// The current state of the node's workers. `None` if the node is on another machine: it reports changes of
    /// its state by itself.
    fn standing(&self, node: NodeId) -> Option<WorkersStanding>;

    /// When [`tick`](Self::tick) is due at the latest, as the time since the job began. `None` if nothing is
    /// pending.
    fn next_deadline(&self) -> Option<Duration>;
}

/// An action or a message that the caller must handle.
#[derive(Debug)]
pub enum ConnectedOutcome {
    /// An action that the state machine decided.
    Do(JobAction),
    /// A message from the node that the state machine does not need.
    Reported(NodeReport),
}

/// A job's state machine and its nodes. In all methods, `now` is the time since the job began, which never
/// decreases, and `out` receives the outcomes, in order.
#[derive(Debug)]
pub struct ConnectedJob<N> {
    job: JobMachine,
    /// Whether the job's only node is on this machine.
    is_local: bool,
    /// Whether a decision waits for [`ConnectedJob::decide_due`].
    is_due: bool,
    /// The nodes.
    pub node: N,
}

impl<N: OrderTarget> ConnectedJob<N> {
    /// Connects a state machine that has received no message yet to its nodes.
    pub fn new(mut job: JobMachine, node: N) -> Self {
        for (id, workers) in node.first_nodes() {
            job.handle(JobMessage::NodeJoined(id, workers), Duration::ZERO);
        }
        let is_local = node.standing(NodeId::ONLY).is_some();
        Self { job, is_local, is_due: false, node }
    }

    /// The job's state machine.
    pub fn job(&self) -> &JobMachine {
        &self.job
    }

    /// Passes a message to the state machine, then lets it decide.
    pub fn send(
        &mut self,
        message: JobMessage,
        now: Duration,
        out: &mut dyn FnMut(ConnectedOutcome),
    ) {
        self.handle(message, now, out);
        self.decide(now, out);
    }

    /// Handles the messages of a node. If any of them are for the state machine, lets it decide. Decisions on messages of
    /// another machine wait for [`decide_due`](Self::decide_due), because there may be many nodes, and each decision
    /// looks at all of them.
    pub fn receive(
        &mut self,
        reported: NodeReports,
        now: Duration,
        out: &mut dyn FnMut(ConnectedOutcome),
    ) {
        self.is_due |= self.handle_reports(reported, now, out);
        if self.is_local {
            self.decide_due(now, out);
        }
    }

    /// Lets the state machine decide, if it has not decided since the last messages. Call this before waiting for
    /// messages.
    pub fn decide_due(&mut self, now: Duration, out: &mut dyn FnMut(ConnectedOutcome)) {
        if self.is_due {
            self.decide(now, out);
        }
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Duration, out: &mut dyn FnMut(ConnectedOutcome)) {
        self.handle(JobMessage::Tick, now, out);
        for reported in self.node.tick() {
            self.handle_reports(reported, now, out);
        }
        self.decide(now, out);
    }

    /// When [`tick`](Self::tick) is due at the latest, if nothing else happens. Always set until the job is
    /// over.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.job.is_finished() {
            return None;
        }
        let node_deadline = self.node.next_deadline();
        self.job.next_deadline().into_iter().chain(node_deadline).min()
    }

    /// Lets the state machine decide until it makes no further decision.
    fn decide(&mut self, now: Duration, out: &mut dyn FnMut(ConnectedOutcome)) {
        self.is_due = false;
        loop {
            let outputs = self.job.decide();
            let wants_answers = outputs.iter().any(JobOutput::wants_answer);
            let has_learned = self.follow(outputs, now, out);
            if !wants_answers && !has_learned {
                return;
            }
        }
    }

    fn handle(
        &mut self,
        message: JobMessage,
        now: Duration,
        out: &mut dyn FnMut(ConnectedOutcome),
    ) {
        let outputs = self.job.handle(message, now);
        self.follow(outputs, now, out);
    }

    /// Carries out the outputs. Handles the node's answer to each output before the next output.
    /// Returns whether the state machine has learned anything from the answers besides the state of
    /// the node's workers.
    fn follow(
        &mut self,
        outputs: Vec<JobOutput>,
        now: Duration,
        out: &mut dyn FnMut(ConnectedOutcome),
    ) -> bool {
        let mut has_learned = false;
        for output in outputs {
            match output {
                JobOutput::Do(action) => out(ConnectedOutcome::Do(action)),
                JobOutput::Order(node, order) => {
                    let reports = self.node.obey(node, order);
                    has_learned |= self.handle_reports(NodeReports { node, reports }, now, out);
                    if let Some(standing) = self.standing(node) {
                        self.handle(standing, now, out);
                    }
                }
            }
        }
        has_learned
    }

    /// Handles the messages of a node. Returns whether the state machine has learned something.
    fn handle_reports(
        &mut self,
        reported: NodeReports,
        now: Duration,
        out: &mut dyn FnMut(ConnectedOutcome),
    ) -> bool {
        let NodeReports { node, reports } = reported;
        let mut has_learned = false;
        for report in reports {
            let message = match report {
                NodeReport::News(news) => Some(JobMessage::Node(node, news)),
                NodeReport::Notice(text) => Some(JobMessage::Notice(text)),
                NodeReport::Arrived => Some(JobMessage::Arrived),
                NodeReport::NoSpace(text) => Some(JobMessage::NoSpace(text)),
                NodeReport::Joined { workers } => Some(JobMessage::NodeJoined(node, workers)),
                NodeReport::MixedBackends(text) => Some(JobMessage::MixedBackends(node, text)),
                NodeReport::Lost => Some(JobMessage::NodeLost(node)),
                // Ask for the current state, because an earlier message may have led to an order.
                NodeReport::Changed => self.standing(node),
                NodeReport::WorkerDone(worker) => {
                    out(ConnectedOutcome::Reported(NodeReport::WorkerDone(worker)));
                    Some(JobMessage::ShutDown)
                }
                report => {
                    out(ConnectedOutcome::Reported(report));
                    None
                }
            };
            if let Some(message) = message {
                self.handle(message, now, out);
                has_learned = true;
            }
        }
        has_learned
    }

    fn standing(&self, node: NodeId) -> Option<JobMessage> {
        let standing = self.node.standing(node)?;
        Some(JobMessage::Node(node, NodeNews::Standing(standing)))
    }
}
