//! Connects a job's state machine to its only node, by direct calls. Each side handles the messages of the
//! other side before anything else happens.

use super::job::{JobAction, JobMachine, JobMessage, JobOutput};
use crate::model::NodeId;
use crate::protocol::{NodeNews, NodeReport, Order, WorkersStanding};
use std::time::Duration;

/// The number of the job's only node.
const ONLY_NODE: NodeId = NodeId(0);

/// The interface of a node that this module needs.
pub trait OrderTarget {
    /// Carries out the leader's order. Returns messages for the leader, in order.
    fn obey(&mut self, order: Order) -> Vec<NodeReport>;

    /// Checks whether a worker is late. Returns messages for the leader, in order.
    fn tick(&mut self) -> Vec<NodeReport>;

    /// The current state of the node's workers.
    fn standing(&self) -> WorkersStanding;

    /// When [`tick`](Self::tick) is due at the latest, as the time since the job began. `None` if nothing is
    /// pending.
    fn next_deadline(&self) -> Option<Duration>;
}

/// An action or a message that the caller must handle.
#[derive(Debug)]
pub enum LocalOutcome {
    /// An action that the state machine decided.
    Do(JobAction),
    /// A message from the node that the state machine does not need.
    Reported(NodeReport),
}

/// A job's state machine and its node. In all methods, `now` is the time since the job began, which never
/// decreases, and `out` receives the outcomes, in order.
#[derive(Debug)]
pub struct LocalJob<N> {
    job: JobMachine,
    /// The node.
    pub node: N,
}

impl<N: OrderTarget> LocalJob<N> {
    /// Connects a state machine that has received no message yet to its node.
    pub fn new(mut job: JobMachine, node: N) -> Self {
        job.handle(JobMessage::NodeJoined(ONLY_NODE), Duration::ZERO);
        Self { job, node }
    }

    /// The job's state machine.
    pub fn job(&self) -> &JobMachine {
        &self.job
    }

    /// Passes a message to the state machine, then lets it decide.
    pub fn send(&mut self, message: JobMessage, now: Duration, out: &mut dyn FnMut(LocalOutcome)) {
        self.handle(message, now, out);
        self.decide(now, out);
    }

    /// Handles the node's messages. If any of them are for the state machine, lets it decide.
    pub fn receive(
        &mut self,
        reported: Vec<NodeReport>,
        now: Duration,
        out: &mut dyn FnMut(LocalOutcome),
    ) {
        if self.handle_reports(reported, now, out) {
            self.decide(now, out);
        }
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Duration, out: &mut dyn FnMut(LocalOutcome)) {
        self.handle(JobMessage::Tick, now, out);
        let reported = self.node.tick();
        self.handle_reports(reported, now, out);
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
    fn decide(&mut self, now: Duration, out: &mut dyn FnMut(LocalOutcome)) {
        loop {
            let outputs = self.job.decide();
            let wants_answers = outputs.iter().any(JobOutput::wants_answer);
            let has_learned = self.follow(outputs, now, out);
            if !wants_answers && !has_learned {
                return;
            }
        }
    }

    fn handle(&mut self, message: JobMessage, now: Duration, out: &mut dyn FnMut(LocalOutcome)) {
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
        out: &mut dyn FnMut(LocalOutcome),
    ) -> bool {
        let mut has_learned = false;
        for output in outputs {
            match output {
                JobOutput::Do(action) => out(LocalOutcome::Do(action)),
                JobOutput::Order(_, order) => {
                    let reported = self.node.obey(order);
                    has_learned |= self.handle_reports(reported, now, out);
                    let standing = self.standing();
                    self.handle(standing, now, out);
                }
            }
        }
        has_learned
    }

    /// Handles the node's messages. Returns whether the state machine has learned something.
    fn handle_reports(
        &mut self,
        reported: Vec<NodeReport>,
        now: Duration,
        out: &mut dyn FnMut(LocalOutcome),
    ) -> bool {
        let mut has_learned = false;
        for report in reported {
            let message = match report {
                NodeReport::News(news) => Some(JobMessage::Node(ONLY_NODE, news)),
                NodeReport::Notice(text) => Some(JobMessage::Notice(text)),
                NodeReport::Arrived => Some(JobMessage::Arrived),
                NodeReport::NoSpace(text) => Some(JobMessage::NoSpace(text)),
                // Ask for the current state, because an earlier message may have led to an order.
                NodeReport::Changed => Some(self.standing()),
                report => {
                    out(LocalOutcome::Reported(report));
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

    fn standing(&self) -> JobMessage {
        JobMessage::Node(ONLY_NODE, NodeNews::Standing(self.node.standing()))
    }
}
