//! A simulated job: its leader and its workers.

use crate::{Grant, JobRequest};
use std::time::Duration;

/// A job that runs mini-batches.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedJob {
    /// As submitted.
    pub(crate) request: JobRequest,
    /// Mini-batches that no worker has begun.
    pub(crate) remaining: u64,
    /// How long each mini-batch takes.
    pub(crate) length: Duration,
    /// The end and the length of each running mini-batch. Each has one worker.
    pub(crate) running: Vec<(Duration, Duration)>,
    /// The workers that the leader got, in total.
    pub(crate) granted: u64,
    /// The workers that the leader gave back, in total.
    pub(crate) given_back: u64,
    /// The total that the leader reported last.
    pub(crate) reported: u64,
    /// What [`Self::most`] was at the last report.
    pub(crate) reported_most: u64,
    /// The workers that the job may use, as the leader knows.
    pub(crate) allowed: u64,
    /// A grant that the leader has not received yet.
    pub(crate) sent: Option<Grant>,
    pub(crate) is_paused: bool,
    pub(crate) submitted: Duration,
    pub(crate) started: Option<Duration>,
}

impl SimulatedJob {
    pub(crate) fn new(
        request: JobRequest,
        mini_batches: u64,
        length: Duration,
        now: Duration,
    ) -> Self {
        Self {
            reported_most: mini_batches.min(request.most_workers),
            request,
            remaining: mini_batches,
            length,
            running: Vec::new(),
            granted: 0,
            given_back: 0,
            reported: 0,
            allowed: 0,
            sent: None,
            is_paused: false,
            submitted: now,
            started: None,
        }
    }

    /// The workers that the job has.
    pub(crate) fn workers(&self) -> u64 {
        self.granted - self.given_back
    }

    /// The workers that the job can use.
    pub(crate) fn most(&self) -> u64 {
        let work = self.remaining + self.running.len() as u64;
        if self.is_paused { 0 } else { work.min(self.request.most_workers) }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.remaining == 0 && self.running.is_empty()
    }

    /// The leader receives what was sent.
    pub(crate) fn receive(&mut self, now: Duration) {
        if let Some(grant) = self.sent.take() {
            self.granted = self.granted.max(grant.granted);
            self.allowed = grant.allowed;
        }
        self.work(now);
    }

    /// Idle workers begin mini-batches, or the leader gives them back.
    pub(crate) fn work(&mut self, now: Duration) {
        while self.workers() > self.running.len() as u64 {
            if self.workers() > self.allowed || self.remaining == 0 || self.is_paused {
                self.given_back += 1;
            } else {
                self.remaining -= 1;
                self.running.push((now + self.length, self.length));
                self.started.get_or_insert(now);
            }
        }
    }

    /// Ends the mini-batches that end until now. Returns their lengths.
    pub(crate) fn finish(&mut self, now: Duration) -> Vec<Duration> {
        let ended = self.running.extract_if(.., |(end, _)| *end <= now);
        ended.map(|(_, length)| length).collect()
    }

    /// The workers that the job got or will get, by what the server sent.
    pub(crate) fn granted_at_most(&self) -> u64 {
        self.sent.as_ref().map_or(self.granted, |grant| grant.granted.max(self.granted))
    }
}
