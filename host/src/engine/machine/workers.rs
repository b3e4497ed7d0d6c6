//! Workers: start, readiness, time-outs, death and replacement.

use super::types::{Activity, Pending, Policy, Worker};
use super::{Action, Machine};
use crate::event::EventKind;
use crate::model::{CallStats, Failure, FailureKind, FirstFailure, MiniBatchId, WorkerId};
use crate::pool::WorkerExit;
use std::collections::VecDeque;
use std::time::Duration;

impl Machine {
    /// Starts workers until there are as many as wanted: no more than there is work for.
    pub(super) fn spawn_wanted(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let held: usize = self.workers.values().map(|worker| worker.held.len()).sum();
        let wanted = (self.policy.workers as usize).min(self.queue.len() + held);
        let live = self.workers.values().filter(|worker| !worker.is_doomed()).count();
        for _ in live..wanted {
            let id = WorkerId(self.next_worker);
            self.next_worker += 1;
            self.workers.insert(
                id,
                Worker {
                    activity: Activity::Starting(self.now),
                    held: VecDeque::new(),
                    drops_next: false,
                    picked: self.now,
                },
            );
            self.actions.push(Action::Spawn(id, None));
        }
    }

    pub(super) fn on_spawn_failed(&mut self, worker: WorkerId, text: &str) {
        self.workers.remove(&worker);
        let text = format!("the worker process {worker} cannot be started: {text}");
        if self.workers.is_empty() {
            self.fail(text);
        } else {
            // The others go on; perhaps the machine has room again later.
            self.count_init_failure(worker, Failure::new(FailureKind::HostFault, text));
        }
    }

    pub(super) fn on_ready(&mut self, id: WorkerId, stats: CallStats) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if !matches!(worker.activity, Activity::Starting(_)) {
            return;
        }
        worker.picked = self.now;
        worker.activity =
            if worker.held.is_empty() { Activity::Idle } else { Activity::Loading(self.now) };
        self.init_failures_in_a_row = 0;
        self.emit(EventKind::WorkerReady { worker: id.to_string(), init_seconds: stats.seconds });
        if self.ending.is_some() {
            self.shut_down(id);
        }
    }

    /// The time for `init` counts, and its failure is not that of the mini-batch that waits.
    pub(super) fn on_restarting(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && matches!(worker.activity, Activity::Idle | Activity::Loading(_))
        {
            worker.activity = Activity::Starting(self.now);
        }
    }

    /// A worker whose `init` failed ends by itself; what it held goes back unharmed.
    pub(super) fn on_init_failed(&mut self, id: WorkerId, failure: Failure) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.is_doomed() {
            return;
        }
        worker.activity = Activity::Doomed(self.now);
        let held = std::mem::take(&mut worker.held);
        self.give_back(held);
        self.tell_init_failure(id, failure);
    }

    fn tell_init_failure(&mut self, id: WorkerId, failure: Failure) {
        self.emit(EventKind::InitFailed { worker: id.to_string(), failure: failure.clone() });
        self.count_init_failure(id, failure);
    }

    /// I1 and I2. A good `init` in between resets I1's count (the newest documentation says
    /// "continuously").
    fn count_init_failure(&mut self, id: WorkerId, failure: Failure) {
        self.init_failures_in_a_row += 1;
        let message = failure.message.clone();
        self.first_failure.get_or_insert(FirstFailure {
            mini_batch: None,
            worker: Some(id.to_string()),
            item: None,
            failure,
        });
        let old = self.now > Policy::INIT_FAILURE_AGE;
        if self.init_failures_in_a_row >= self.policy.init_failures_allowed()
            || (old && self.init_failures_in_a_row > 2 * self.policy.workers)
        {
            self.fail(format!(
                "init failed {} times in a row, on every worker that was started: {message}",
                self.init_failures_in_a_row
            ));
        }
    }

    /// When something must happen if this worker stays silent.
    pub(super) fn deadline_of(&self, worker: &Worker) -> Option<Duration> {
        match worker.activity {
            Activity::Loading(since) => Some(since + self.policy.load_timeout),
            Activity::Running(since) => Some(since + self.policy.run_timeout),
            Activity::ShuttingDown(since) => Some(since + self.policy.run_timeout),
            Activity::Doomed(since) => Some(since + Policy::KILL_GRACE),
            Activity::Starting(since) if !worker.held.is_empty() => {
                Some(since + self.policy.init_timeout())
            }
            // One worker that is slow in init is borne while another is not; see `stuck_at`.
            Activity::Starting(_) | Activity::Idle => None,
        }
    }

    pub(super) fn check_deadlines(&mut self) {
        if self.ending.as_ref().is_some_and(|ending| self.now >= ending.kill_at) {
            self.kill_all();
        }
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            // Looked up one by one: one that is late may end the job, and with it the others.
            let deadline = self.workers.get(&id).and_then(|worker| self.deadline_of(worker));
            if deadline.is_some_and(|at| self.now >= at) {
                self.time_out(id);
            }
        }
        self.check_stuck();
    }

    /// I3: when a job makes no progress because every worker hangs in `init`.
    pub(super) fn stuck_at(&self) -> Option<Duration> {
        let starts = self.workers.values().map(|worker| match worker.activity {
            Activity::Starting(since) => Some(since),
            _ => None,
        });
        let last = starts.collect::<Option<Vec<Duration>>>()?.into_iter().max()?;
        Some(last + self.policy.init_timeout()).filter(|_| self.ending.is_none())
    }

    fn check_stuck(&mut self) {
        if self.stuck_at().is_some_and(|at| self.now >= at) {
            self.fail(format!(
                "no progress: every worker has been inside init for more than {} s (3 x \
                 run_invocation_timeout + 30 s)",
                self.policy.init_timeout().as_secs()
            ));
        }
    }

    fn time_out(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let failure = match worker.activity {
            Activity::Running(_) => Failure::new(
                FailureKind::Timeout,
                format!(
                    "run took longer than run_invocation_timeout ({} s); the worker was killed",
                    self.policy.run_timeout.as_secs_f64()
                ),
            ),
            Activity::Loading(_) => Failure::new(
                FailureKind::Timeout,
                format!(
                    "loading the mini-batch took longer than {} s; the worker was killed",
                    self.policy.load_timeout.as_secs_f64()
                ),
            ),
            Activity::ShuttingDown(_) => {
                self.emit(EventKind::Notice {
                    message: format!(
                        "{id}: shutdown took longer than run_invocation_timeout ({} s); the worker \
                         was killed",
                        self.policy.run_timeout.as_secs_f64()
                    ),
                });
                return self.kill(id);
            }
            Activity::Starting(_) => return self.time_out_init(id),
            Activity::Doomed(_) => {
                self.workers.remove(&id);
                self.actions.push(Action::Kill(id));
                return self.emit(EventKind::Notice {
                    message: format!(
                        "{id} was killed and does not end; the job goes on without it"
                    ),
                });
            }
            Activity::Idle => return,
        };
        self.kill_and_lose(id, failure);
    }

    /// A new instance after a trap is not ready in time, while a mini-batch waits for it.
    fn time_out_init(&mut self, id: WorkerId) {
        self.kill(id);
        let held = self.workers.get_mut(&id).map(|worker| std::mem::take(&mut worker.held));
        self.give_back(held.unwrap_or_default());
        let seconds = self.policy.init_timeout().as_secs();
        let failure = Failure::new(
            FailureKind::Timeout,
            format!("init took longer than {seconds} s (3 x run_invocation_timeout + 30 s)"),
        );
        self.tell_init_failure(id, failure);
    }

    /// Kills a worker whose first mini-batch has failed by that.
    pub(super) fn kill_and_lose(&mut self, id: WorkerId, failure: Failure) {
        self.kill(id);
        if let Some(worker) = self.workers.get_mut(&id) {
            let (held, picked) = (std::mem::take(&mut worker.held), worker.picked);
            self.lose_held(id, held, picked, failure);
        }
    }

    /// The first mini-batch that a worker held has failed; the next one goes back unharmed.
    fn lose_held(
        &mut self,
        id: WorkerId,
        mut held: VecDeque<Pending>,
        picked: Duration,
        failure: Failure,
    ) {
        let first = held.pop_front();
        self.give_back(held);
        if let Some(pending) = first {
            self.attempt_lost(id, pending, picked, failure);
        }
    }

    fn give_back(&mut self, held: VecDeque<Pending>) {
        for pending in held.into_iter().rev() {
            if self.ending.is_none() {
                self.emit(EventKind::MiniBatchReturned { id: pending.mini_batch.id });
                self.queue.push_front(pending);
            }
        }
    }

    pub(super) fn kill(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !worker.is_doomed()
        {
            worker.activity = Activity::Doomed(self.now);
            self.actions.push(Action::Kill(id));
        }
    }

    pub(super) fn kill_all(&mut self) {
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            if let Some(worker) = self.workers.get_mut(&id) {
                let held = std::mem::take(&mut worker.held);
                self.give_back(held);
            }
            self.kill(id);
        }
    }

    pub(super) fn shut_down(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !worker.is_doomed()
        {
            worker.activity = Activity::ShuttingDown(self.now);
            self.actions.push(Action::Shutdown(id));
        }
    }

    pub(super) fn on_started(&mut self, id: WorkerId, batch: MiniBatchId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let first = worker.held.front().map(|pending| pending.mini_batch.id);
        if first == Some(batch) && matches!(worker.activity, Activity::Loading(_)) {
            worker.activity = Activity::Running(self.now);
            let attempt = worker.held.front().map_or(1, |pending| pending.attempt);
            let worker = id.to_string();
            self.emit(EventKind::AttemptStarted { worker, id: batch, attempt });
        }
    }

    pub(super) fn on_exited(&mut self, id: WorkerId, exit: &WorkerExit) {
        let Some(Worker { activity, held, picked, .. }) = self.workers.remove(&id) else { return };
        let expected = match activity {
            Activity::Doomed(_) => true,
            Activity::ShuttingDown(_) => exit.code == Some(0),
            _ => false,
        };
        if matches!(activity, Activity::ShuttingDown(_)) && !exit.note.is_empty() {
            // All its mini-batches are done: nothing fails, but nothing is hidden either.
            let message = format!("{id} said at its end: {}", exit.note.trim_end());
            self.emit(EventKind::Notice { message });
        }
        let how = describe_exit(exit);
        self.emit(EventKind::WorkerExited { worker: id.to_string(), how: how.clone(), expected });
        match activity {
            Activity::Starting(_) => {
                self.give_back(held);
                self.tell_init_failure(id, death(exit, &how, "while it started"));
            }
            Activity::Loading(_) => {
                self.lose_held(id, held, picked, death(exit, &how, "loading a mini-batch"));
            }
            Activity::Running(_) => {
                self.lose_held(id, held, picked, death(exit, &how, "inside run"));
            }
            Activity::Idle | Activity::ShuttingDown(_) | Activity::Doomed(_) => {}
        }
    }
}

/// "exited with returncode -9", the words that users of ParallelRunStep look for.
fn describe_exit(exit: &WorkerExit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("exited with returncode -{signal}"),
        (Some(code), None) => format!("exited with returncode {code}"),
        (None, None) => "exited".to_owned(),
    }
}

/// W6: a kill that the leader did not order is taken for the machine's out-of-memory killer.
fn death(exit: &WorkerExit, how: &str, when: &str) -> Failure {
    let (kind, hint) = if exit.signal == Some(9) {
        (
            FailureKind::OutOfMemory,
            "; it was killed from outside, most often because the machine ran out of memory: use \
             fewer workers (process_count_per_node) or a lower limits.memory",
        )
    } else {
        (FailureKind::WorkerDied, "")
    };
    Failure::new(kind, format!("the worker process {how} {when}{hint}"))
        .with_detail(exit.note.clone())
}
