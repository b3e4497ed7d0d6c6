//! Who gets the next mini-batch.

use super::queue::Pending;
use super::types::{Activity, Worker};
use super::{Action, Machine, Policy};
use crate::model::WorkerId;

impl Machine {
    /// Hands out mini-batches: one to every worker that has none, retries first; then, while plenty
    /// wait, further ones, so that a worker need not wait for the leader between two. Near the end nobody
    /// gets a further one: it would wait behind a slow mini-batch while others idle. Nor does anybody
    /// while a retry waits, which the next worker without a mini-batch gets.
    pub(super) fn assign(&mut self) {
        let unwritten = self.committing.len() >= Policy::UNWRITTEN;
        let holds_back = unwritten || self.commits_would_end_it();
        if self.ending.is_none() && !self.queue.is_empty() && !holds_back {
            self.assign_to_free();
            if !self.queue.has_retries() {
                self.assign_ahead();
            }
        }
        if let Some(id) = self.awaits_word.take() {
            self.let_go_on(id);
        }
    }

    fn assign_to_free(&mut self) {
        loop {
            let turns = self.turns();
            let retry = self.queue.due_retry(turns).map(|retry| retry.failed_on);
            let free = match retry {
                Some(failed_on) => {
                    let waiting = self.awaits_word.filter(|_| !self.mends_slowly);
                    self.free_worker(failed_on).or(waiting)
                }
                None => self.free_worker(None),
            };
            let Some(id) = free else { return };
            let next = match retry {
                Some(_) => self.queue.pop_retry(turns),
                None => self.queue.pop_first(),
            };
            let Some(pending) = next else { return };
            self.hand_over(id, pending);
        }
    }

    /// A worker without a mini-batch; not this one, if there is another.
    fn free_worker(&self, but: Option<WorkerId>) -> Option<WorkerId> {
        let is_free = |worker: &Worker| worker.activity == Activity::Idle && worker.held.is_empty();
        let mut free = self.workers.iter().filter(|(_, worker)| is_free(worker)).map(|(id, _)| *id);
        let first = free.next()?;
        if Some(first) == but { free.next().or(Some(first)) } else { Some(first) }
    }

    fn assign_ahead(&mut self) {
        let takes = |worker: &Worker| match worker.activity {
            Activity::Loading(_) | Activity::Running(_) => {
                let depth = worker.held.len();
                (depth <= worker.ahead()).then_some(depth)
            }
            Activity::Idle
            | Activity::Starting(_)
            | Activity::ShuttingDown(_)
            | Activity::Doomed(_) => None,
        };
        // First those who have least.
        while let Some(depth) = self.workers.values().filter_map(takes).min() {
            if self.queue.first_attempts() <= depth * self.policy.workers as usize {
                return;
            }
            let takers = self.workers.iter().filter(|(_, worker)| takes(worker) == Some(depth));
            let takers: Vec<WorkerId> = takers.map(|(id, _)| *id).collect();
            for id in takers {
                let Some(pending) = self.queue.pop_first() else { return };
                self.hand_over(id, pending);
            }
        }
    }

    /// Whether the leader may look away for [`Policy::PAUSE`]: nobody runs out of work meanwhile, and no
    /// worker is likely to wait for its word. Where mini-batches are tiny, being woken by each of them
    /// would cost more than they do.
    pub fn may_pause(&self) -> bool {
        let is_supplied = |worker: &Worker| match worker.activity {
            Activity::Loading(_) | Activity::Running(_) => worker.supply() >= 2 * Policy::PAUSE,
            Activity::Starting(_)
            | Activity::Idle
            | Activity::ShuttingDown(_)
            | Activity::Doomed(_) => false,
        };
        let is_smooth = self.now >= self.rough_until && !self.queue.has_retries();
        is_smooth && !self.workers.is_empty() && self.workers.values().all(is_supplied)
    }

    fn hand_over(&mut self, id: WorkerId, pending: Pending) {
        let assignment = self.assignment(&pending);
        let comes_first = pending.is_retry() && self.awaits_word.take_if(|at| *at == id).is_some();
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if comes_first {
            self.actions.push(Action::AssignFirst(id, assignment));
            worker.held.push_front(pending);
        } else {
            self.actions.push(Action::Assign(id, assignment));
            worker.held.push_back(pending);
        }
        if worker.activity == Activity::Idle {
            worker.activity = Activity::Loading(self.now);
            worker.picked = self.now;
        }
    }

    /// To a worker that waits after a failed attempt.
    fn let_go_on(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        if matches!(worker.activity, Activity::Idle | Activity::Loading(_)) {
            self.actions.push(Action::GoOn(id));
        }
    }
}
