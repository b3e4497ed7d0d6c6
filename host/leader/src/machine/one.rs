//! A job on one machine: its own machine and that of its only node, joined by direct calls.

use super::job::{JobMachine, JobMessage, JobOutput};
use super::types::Addressed;
use super::{Action, Message, Policy};
use crate::model::{NodeId, Restored, Source, WorkerId};
use crate::protocol::News;
use jiff::Timestamp;
use sandmill_node::machine::{NodeMachine, NodeMessage, NodeOutput};
use std::time::Duration;

/// The only node.
const HERE: NodeId = NodeId(0);

/// The state of a job on one machine.
#[derive(Debug)]
pub(super) struct Machine {
    job: JobMachine,
    node: NodeMachine,
    now: Duration,
    actions: Vec<Action>,
}

impl Machine {
    /// A job before its first message. `began` is the time that `now` counts from.
    ///
    /// `restored` is what an earlier run of the job left done: it counts, and is not done again.
    pub(super) fn new(
        policy: Policy,
        sources: Vec<Source>,
        began: Timestamp,
        restored: Restored,
    ) -> Self {
        let node = NodeMachine::new(policy.of_node(), restored.next_worker);
        let mut job = JobMachine::new(policy, sources, began, restored);
        job.take_in(JobMessage::NodeJoined(HERE), Duration::ZERO);
        Self { job, node, now: Duration::ZERO, actions: Vec::new() }
    }

    /// Takes in what happened; returns what to do, in order. `now` never goes back.
    pub(super) fn handle(&mut self, message: Message, now: Duration) -> Vec<Action> {
        self.now = now;
        if self.job.is_finished() {
            return Vec::new();
        }
        match Addressed::from(message) {
            Addressed::Job(message) => self.tell_job(message),
            Addressed::Node(message) => self.tell_node(message),
            Addressed::Both => {
                self.tell_job(JobMessage::Tick);
                self.tell_node(NodeMessage::Tick);
            }
        }
        loop {
            let outputs = self.job.decide();
            let wants_answers = outputs.iter().any(JobOutput::wants_answer);
            self.follow(outputs);
            if !wants_answers {
                return std::mem::take(&mut self.actions);
            }
        }
    }

    fn tell_job(&mut self, message: JobMessage) {
        let outputs = self.job.take_in(message, self.now);
        self.follow(outputs);
    }

    fn tell_node(&mut self, message: NodeMessage) {
        let outputs = self.node.handle(message, self.now);
        self.report(outputs);
    }

    /// Has the job's outputs done, and those of the node's answers, each before the next.
    fn follow(&mut self, outputs: Vec<JobOutput>) {
        for output in outputs {
            match output {
                JobOutput::Do(action) => self.actions.push(action.into()),
                JobOutput::Order(_, order) => {
                    let answers = self.node.obey(order, self.now);
                    self.report(answers);
                }
            }
        }
    }

    fn report(&mut self, outputs: Vec<NodeOutput>) {
        for output in outputs {
            match output {
                NodeOutput::Do(action) => self.actions.push(action.into()),
                NodeOutput::Tell(news) => self.tell_job(JobMessage::Node(HERE, news)),
            }
        }
        let standing = News::Standing(self.node.standing());
        self.tell_job(JobMessage::Node(HERE, standing));
    }

    /// The job's own machine.
    #[cfg(test)]
    pub(super) fn job(&self) -> &JobMachine {
        &self.job
    }

    /// Takes the room of actions that are done back, for the next ones.
    pub(super) fn reuse(&mut self, done: Vec<Action>) {
        self.actions = done;
        self.actions.clear();
    }

    /// When [`Message::Tick`] is due at the latest, if nothing else happens. Always known
    /// while the job is not over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let of_job = self.job.next_deadline();
        let of_node = self.node.next_deadline().filter(|_| !self.job.is_finished());
        of_job.into_iter().chain(of_node).min()
    }

    /// Whether more of the plan is welcome. Holds memory flat however large the input.
    pub(super) fn wants_plan(&self) -> bool {
        self.job.wants_plan()
    }

    /// Whether the committer should write at once what it has gathered: nothing else is awaited, or it
    /// decides whether the job goes on.
    pub(super) fn wants_commits(&self) -> bool {
        self.job.wants_commits()
    }

    /// Whether the leader may look away for [`PAUSE`](crate::protocol::NodePolicy::PAUSE): no worker runs out of work
    /// meanwhile, and none is likely to wait for its word.
    pub(super) fn may_pause(&self) -> bool {
        self.job.is_smooth() && self.node.is_supplied()
    }

    /// The workers whose guest is at something that has a time-out, with how long it has been.
    pub(super) fn inside_guests(
        &self,
        now: Duration,
    ) -> impl Iterator<Item = (WorkerId, Duration)> {
        self.node.inside_guests(now)
    }
}
