//! Who gets the next mini-batch.

use super::types::Activity;
use super::{Action, Machine, Policy};
use crate::model::WorkerId;

impl Machine {
    /// Hands out mini-batches: one to every worker that has none, then, while plenty wait, a second
    /// one, so that a worker need not wait for the leader between two. Near the end nobody gets a
    /// second one: it would wait behind a slow mini-batch while others idle.
    pub(super) fn assign(&mut self) {
        let unwritten = self.committing.len() >= Policy::UNWRITTEN;
        if self.ending.is_some() || self.queue.is_empty() || unwritten {
            return;
        }
        for depth in 0..2 {
            if depth == 1 && self.queue.len() <= self.policy.workers as usize {
                break;
            }
            let takers: Vec<WorkerId> = self
                .workers
                .iter()
                .filter(|(_, worker)| worker.held.len() == depth)
                .filter(|(_, worker)| {
                    matches!(
                        worker.activity,
                        Activity::Idle | Activity::Loading(_) | Activity::Running(_)
                    )
                })
                .map(|(id, _)| *id)
                .collect();
            for id in takers {
                let Some(pending) = self.queue.pop_front() else { return };
                self.hand_over(id, pending);
            }
        }
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
