//! The jobs that share the cluster.

use crate::names::{JobId, TenantId, UserId};
use crate::resources::SlotSize;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The priority of a job inside its tenant. Each level is one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Below other jobs.
    Low,
    /// The priority of most jobs.
    #[default]
    Normal,
    /// Above other jobs.
    High,
    /// Above all other jobs. It takes over the workers of the tenant's other jobs as their mini-batches end.
    Urgent,
}

impl Priority {
    /// The class of a job that has not waited yet.
    pub(crate) fn class(self) -> u64 {
        self as u64
    }
}

/// A job that is submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// The job's id.
    pub id: JobId,
    /// The tenant that submits the job.
    pub tenant: TenantId,
    /// The user that submits the job. `None` if the caller does not know; all such jobs belong to one user.
    pub user: Option<UserId>,
    /// The priority inside the tenant.
    pub priority: Priority,
    /// What one worker needs.
    pub slot: SlotSize,
    /// The most workers that the job can use: at most its setting, and at most its remaining mini-batches.
    pub most_workers: u64,
    /// The job starts only with so many workers at once. If `most_workers` is less, that number counts. 0 and 1 mean
    /// the same.
    pub minimum_workers: u64,
}

/// A queued or running job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) tenant: TenantId,
    /// The empty id if the caller does not know the user.
    pub(crate) user: UserId,
    pub(crate) priority: Priority,
    pub(crate) slot: SlotSize,
    pub(crate) most_workers: u64,
    minimum_workers: u64,
    /// The number of jobs that were submitted before.
    pub(crate) sequence: u64,
    /// The workers that the job got, in total.
    pub(crate) granted: u64,
    /// The workers that the job gave back, in total.
    given_back: u64,
    /// How long the job had no workers, without the current wait.
    waited: Duration,
    /// The begin of the current wait. `None` if the job has workers.
    waits_since: Option<Duration>,
}

impl Job {
    pub(crate) fn new(request: JobRequest, sequence: u64, now: Duration) -> Self {
        Self {
            tenant: request.tenant,
            user: request.user.unwrap_or_else(|| UserId::from("")),
            priority: request.priority,
            slot: request.slot,
            most_workers: request.most_workers,
            minimum_workers: request.minimum_workers,
            sequence,
            granted: 0,
            given_back: 0,
            waited: Duration::ZERO,
            waits_since: Some(now),
        }
    }

    /// The workers that the job has, or may start at any time.
    pub(crate) fn held(&self) -> u64 {
        self.granted - self.given_back
    }

    pub(crate) fn minimum(&self) -> u64 {
        self.minimum_workers.min(self.most_workers).max(1)
    }

    pub(crate) fn waited(&self, now: Duration) -> Duration {
        let current = self.waits_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.waited.saturating_add(current)
    }

    pub(crate) fn grant(&mut self, workers: u64, now: Duration) {
        self.granted += workers;
        self.note_wait(now);
    }

    /// Counts what the job gave back, in total. An older report changes nothing. The caller checks that the job does
    /// not give back more than it got.
    pub(crate) fn give_back(&mut self, total: u64, now: Duration) {
        self.given_back = self.given_back.max(total.min(self.granted));
        self.note_wait(now);
    }

    /// Begins or ends the current wait.
    fn note_wait(&mut self, now: Duration) {
        if self.held() > 0 {
            self.waited = self.waited(now);
            self.waits_since = None;
        } else if self.waits_since.is_none() {
            self.waits_since = Some(now);
        }
    }
}
