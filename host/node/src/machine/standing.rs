//! What the leader must know about a node's workers to decide for the job.

use super::NodeMachine;
use super::worker::{Activity, LiveWorker};
use crate::model::{WorkerId, count_u32};
use crate::protocol::{GrowingQueues, WorkersStanding};
use std::cmp::Ordering;
use std::time::Duration;

impl NodeMachine {
    /// What the workers are doing now.
    pub fn standing(&self) -> WorkersStanding {
        let mut standing = WorkersStanding {
            has_good: self
                .workers
                .values()
                .any(|worker| worker.has_initialized && !worker.is_doomed()),
            init_failures: self.init_failures_in_a_row,
            is_pausing: self.is_pausing(),
            is_full: self.is_full,
            ahead: self.ahead(),
            grants: self.grants,
            is_ending: self.is_ending,
            awaits_decision: self.waiting.values().max().copied(),
            ..WorkersStanding::default()
        };
        for (id, worker) in &self.workers {
            let count = match worker.activity {
                Activity::Starting(since) => {
                    let age = self.now.saturating_sub(since);
                    standing.first_starting.get_or_insert(*id);
                    standing.last_start =
                        Some(standing.last_start.map_or(age, |last| last.min(age)));
                    &mut standing.starting
                }
                Activity::Idle => &mut standing.idle,
                Activity::Loading(_) => &mut standing.loading,
                Activity::Running(_) => &mut standing.running,
                Activity::ShuttingDown(_) => &mut standing.closing,
                Activity::Doomed(_) => &mut standing.doomed,
            };
            *count += 1;
        }
        standing
    }

    /// The queues that may grow. `None` if no queue may grow. This is part of each report, so it must be fast.
    fn ahead(&self) -> Option<GrowingQueues> {
        if self.is_ending || self.is_full {
            return None;
        }
        let mut found: Option<GrowingQueues> = None;
        for worker in self.workers.values() {
            let Some(room) = worker.takes_ahead() else { continue };
            let depth = count_u32(worker.held.len());
            let so_far = found.get_or_insert(GrowingQueues { depth, takers: 0, room: 0 });
            so_far.room += count_u32(room);
            match depth.cmp(&so_far.depth) {
                Ordering::Less => {
                    so_far.depth = depth;
                    so_far.takers = 1;
                }
                Ordering::Equal => so_far.takers += 1,
                Ordering::Greater => {}
            }
        }
        found
    }

    /// The workers with the shortest queues, of those that may take more attempts, and the lengths of these queues, which
    /// are the same.
    pub(super) fn takers(&self, may_take: impl Fn(&LiveWorker) -> bool) -> Vec<(WorkerId, usize)> {
        let mut takers: Vec<(WorkerId, usize)> = Vec::new();
        let may_take = |worker: &LiveWorker| !self.is_ending && !self.is_full && may_take(worker);
        for (id, worker) in self.workers.iter().filter(|(_, worker)| may_take(worker)) {
            let depth = worker.held.len();
            if takers.first().is_some_and(|(_, shortest)| depth < *shortest) {
                takers.clear();
            }
            if takers.first().is_none_or(|(_, shortest)| depth == *shortest) {
                takers.push((*id, depth));
            }
        }
        takers
    }

    /// Whether no worker runs out of work during a [pause](crate::protocol::QueuePolicy::pause). If mini-batches are
    /// tiny, waking the leader for each of them would cost more than running them.
    pub fn is_supplied(&self) -> bool {
        let is_supplied = |worker: &LiveWorker| worker.is_supplied(self.policy.queues);
        // A worker that waits after a failed attempt needs the leader's decision.
        self.waiting.is_empty()
            && !self.workers.is_empty()
            && self.workers.values().all(is_supplied)
    }

    /// How long a [pause](crate::protocol::QueuePolicy::pause) is.
    pub fn pause(&self) -> Duration {
        self.policy.queues.pause
    }
}
