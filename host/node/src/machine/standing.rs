//! What the leader must know about a node's workers to decide for the job.

use super::NodeMachine;
use super::worker::{Activity, LiveWorker};
use crate::model::count_u32;
use crate::protocol::{GrowingQueues, WorkersStanding};

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

    /// The length of the shortest queues that may grow, and the number of these queues. `None` if no queue
    /// may grow.
    pub(super) fn ahead(&self) -> Option<GrowingQueues> {
        let depths = || {
            let workers = self.workers.values().filter(|_| !self.is_ending);
            workers.filter_map(LiveWorker::takes_ahead)
        };
        let depth = depths().min()?;
        let takers = depths().filter(|other| *other == depth).count();
        Some(GrowingQueues { depth: count_u32(depth), takers: count_u32(takers) })
    }

    /// Whether no worker runs out of work while the leader pauses for
    /// [`PAUSE`](crate::protocol::NodePolicy::PAUSE). If mini-batches are tiny, waking the leader for each of
    /// them would cost more than running them.
    pub fn is_supplied(&self) -> bool {
        !self.workers.is_empty() && self.workers.values().all(LiveWorker::is_supplied)
    }
}
