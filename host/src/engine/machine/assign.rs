//! Who gets the next mini-batch.

use super::types::{Activity, Worker};
use super::{Action, Machine, Policy};
use crate::model::WorkerId;

impl Machine {
    /// Hands out mini-batches: one to every worker that has none, then, while plenty wait, further
    /// ones, so that a worker need not wait for the leader between two. Near the end nobody gets a
    /// further one: it would wait behind a slow mini-batch while others idle.
    pub(super) fn assign(&mut self) {
        let unwritten = self.committing.len() >= Policy::UNWRITTEN;
        if self.ending.is_some() || self.queue.is_empty() || unwritten {
            return;
        }
        let takes = |worker: &Worker| match worker.activity {
            Activity::Idle | Activity::Loading(_) | Activity::Running(_) => {
                let depth = worker.held.len();
                (depth <= worker.ahead()).then_some(depth)
            }
            Activity::Starting(_) | Activity::ShuttingDown(_) | Activity::Doomed(_) => None,
        };
        // First those who have least.
        while let Some(depth) = self.workers.values().filter_map(takes).min() {
            if depth > 0 && self.queue.len() <= depth * self.policy.workers as usize {
                return;
            }
            let takers = self.workers.iter().filter(|(_, worker)| takes(worker) == Some(depth));
            let takers: Vec<WorkerId> = takers.map(|(id, _)| *id).collect();
            for id in takers {
                let Some(pending) = self.queue.pop_front() else { return };
                self.hand_over(id, pending);
            }
        }
    }

    /// Whether the leader may look away for [`Policy::PAUSE`]: nobody runs out of work meanwhile. Where
    /// mini-batches are tiny, being woken by each of them would cost more than they do.
    pub fn may_pause(&self) -> bool {
        let is_supplied = |worker: &Worker| match worker.activity {
            Activity::Loading(_) | Activity::Running(_) => worker.supply() >= 2 * Policy::PAUSE,
            Activity::Starting(_)
            | Activity::Idle
            | Activity::ShuttingDown(_)
            | Activity::Doomed(_) => false,
        };
        !self.workers.is_empty() && self.workers.values().all(is_supplied)
    }

    fn hand_over(&mut self, id: WorkerId, pending: super::types::Pending) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        self.actions.push(Action::Assign(id, pending.assignment()));
        worker.held.push_back(pending);
        if worker.activity == Activity::Idle {
            worker.activity = Activity::Loading(self.now);
            worker.picked = self.now;
        }
    }
}
