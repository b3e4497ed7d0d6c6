//! The leader of a job is replaced: what the workers do goes on.

use super::NodeMachine;
use crate::protocol::ContinuedAttempt;
use std::time::Duration;

impl NodeMachine {
    /// Works for another leader from now on, which has given no order yet. Returns the attempts that workers have.
    pub fn follow_leader(&mut self, now: Duration) -> Vec<ContinuedAttempt> {
        self.now = self.now.max(now);
        self.grants = 0;
        self.past_init_elsewhere = false;
        let mut attempts = Vec::new();
        for (id, worker) in self.workers.iter().filter(|(_, worker)| !worker.is_doomed()) {
            for (position, held) in worker.held.iter().enumerate() {
                let begun = worker.activity.running_since().filter(|_| position == 0);
                if !held.is_cancelled {
                    attempts.push(ContinuedAttempt {
                        id: held.id,
                        attempt: held.attempt,
                        runs_on: begun.map(|_| *id),
                        age: begun.map_or(Duration::ZERO, |since| self.now.saturating_sub(since)),
                    });
                }
            }
        }
        attempts
    }
}
