//! A job's machine joined to its only node, by direct calls: what either says is taken in by the other before anything
//! else happens.

use super::job::{JobAction, JobMachine, JobMessage, JobOutput};
use crate::model::NodeId;
use crate::protocol::{News, Order, Standing, Told};
use std::time::Duration;

/// The only node.
const HERE: NodeId = NodeId(0);

/// A node, as far as a job's machine deals with it.
pub trait Obeys {
    /// Does what the leader wants. Returns what it must know of that, in order.
    fn obey(&mut self, order: Order) -> Vec<Told>;

    /// Time has passed, and a worker may be late. Returns what the leader must know, in order.
    fn tick(&mut self) -> Vec<Told>;

    /// What the node's workers are at now.
    fn standing(&self) -> Standing;

    /// When [`tick`](Self::tick) is due at the latest, by the time since the job began; `None` if nothing is awaited.
    fn next_deadline(&self) -> Option<Duration>;
}

/// What is to be done by others, in order.
#[derive(Debug)]
pub enum Outcome {
    /// Decided by the job's machine.
    Do(JobAction),
    /// Told by the node, and no affair of the job's machine as it is.
    Told(Told),
}

/// Both. What is taken in comes with the time since the job began, which never goes back, and with what takes outcomes.
#[derive(Debug)]
pub struct Joined<N> {
    job: JobMachine,
    /// The node.
    pub node: N,
}

impl<N: Obeys> Joined<N> {
    /// Both before their first message. That its node takes part leads to nothing yet.
    pub fn new(mut job: JobMachine, node: N) -> Self {
        job.take_in(JobMessage::NodeJoined(HERE), Duration::ZERO);
        Self { job, node }
    }

    /// The job's machine.
    pub fn job(&self) -> &JobMachine {
        &self.job
    }

    /// Takes in what happened to the job, then decides.
    pub fn tell(&mut self, message: JobMessage, now: Duration, out: &mut dyn FnMut(Outcome)) {
        self.take_in(message, now, out);
        self.decide(now, out);
    }

    /// Takes in what the node tells, then decides, if the job's machine has learned something.
    pub fn hear(&mut self, told: Vec<Told>, now: Duration, out: &mut dyn FnMut(Outcome)) {
        if self.take_in_told(told, now, out) {
            self.decide(now, out);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration, out: &mut dyn FnMut(Outcome)) {
        self.take_in(JobMessage::Tick, now, out);
        let told = self.node.tick();
        self.take_in_told(told, now, out);
        self.decide(now, out);
    }

    /// When [`tick`](Self::tick) is due at the latest, if nothing else happens. Always known while the job is not over.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.job.is_finished() {
            return None;
        }
        let of_node = self.node.next_deadline();
        self.job.next_deadline().into_iter().chain(of_node).min()
    }

    /// Decides until nothing more follows.
    fn decide(&mut self, now: Duration, out: &mut dyn FnMut(Outcome)) {
        loop {
            let outputs = self.job.decide();
            let wants_answers = outputs.iter().any(JobOutput::wants_answer);
            let has_learned = self.follow(outputs, now, out);
            if !wants_answers && !has_learned {
                return;
            }
        }
    }

    fn take_in(&mut self, message: JobMessage, now: Duration, out: &mut dyn FnMut(Outcome)) {
        let outputs = self.job.take_in(message, now);
        self.follow(outputs, now, out);
    }

    /// Has it done, and takes in what the node tells of that, each before the next. Returns whether the job's machine
    /// has learned more than how the node stands.
    fn follow(
        &mut self,
        outputs: Vec<JobOutput>,
        now: Duration,
        out: &mut dyn FnMut(Outcome),
    ) -> bool {
        let mut has_learned = false;
        for output in outputs {
            match output {
                JobOutput::Do(action) => out(Outcome::Do(action)),
                JobOutput::Order(_, order) => {
                    let told = self.node.obey(order);
                    has_learned |= self.take_in_told(told, now, out);
                    let standing = self.standing();
                    self.take_in(standing, now, out);
                }
            }
        }
        has_learned
    }

    /// Returns whether the job's machine has learned something.
    fn take_in_told(
        &mut self,
        told: Vec<Told>,
        now: Duration,
        out: &mut dyn FnMut(Outcome),
    ) -> bool {
        let mut has_learned = false;
        for told in told {
            let message = match told {
                Told::News(news) => Some(JobMessage::Node(HERE, news)),
                Told::Notice(text) => Some(JobMessage::Notice(text)),
                Told::Arrived => Some(JobMessage::Arrived),
                Told::NoSpace(text) => Some(JobMessage::NoSpace(text)),
                // As it stands now: what was told before may have led to an order.
                Told::Changed => Some(self.standing()),
                told => {
                    out(Outcome::Told(told));
                    None
                }
            };
            if let Some(message) = message {
                self.take_in(message, now, out);
                has_learned = true;
            }
        }
        has_learned
    }

    fn standing(&self) -> JobMessage {
        JobMessage::Node(HERE, News::Standing(self.node.standing()))
    }
}
