//! Workers: start, readiness, death and replacement.

use super::queue::Pending;
use super::types::{Activity, Worker};
use super::{Action, Machine, Policy};
use crate::event::EventKind;
use crate::model::WorkerExit;
use crate::model::{CallStats, EndedBy, Failure, FailureKind, MiniBatchId, WorkerId};
use std::collections::VecDeque;
use std::time::Duration;

impl Machine {
    /// Starts workers until there are as many as wanted: no more than there is work for. Fewer live
    /// only for a reason: the job ends, `init` keeps failing (I1), or the machine has no room for another
    /// process.
    pub(super) fn spawn_wanted(&mut self) {
        self.spawn_again_at = self.spawn_again_at.filter(|at| self.now < *at);
        self.room_again_at = self.room_again_at.filter(|at| self.now < *at);
        let pauses = self.spawn_again_at.is_some() || self.room_again_at.is_some();
        if self.ending.is_some() || pauses {
            return;
        }
        let held: usize = self.workers.values().map(|worker| worker.held.len()).sum();
        let wanted = (self.policy.workers as usize).min(self.queue.len() + held);
        let wanted = wanted.max(usize::from(self.lacks_closer()));
        // A killed worker that has a GPU keeps its place until it is gone: the next one is to have
        // that GPU (G1).
        let in_place = |id: &WorkerId, worker: &Worker| {
            !worker.is_doomed() || (!self.policy.gpus.is_empty() && self.leases.of(*id).is_some())
        };
        let places = self.workers.iter().filter(|(id, worker)| in_place(id, worker)).count();
        let missing = wanted.saturating_sub(places);
        let awaited = self.leases.awaited(missing, self.now);
        for _ in 0..missing.saturating_sub(awaited).min(self.starts_left()) {
            self.spawn();
        }
    }

    fn spawn(&mut self) {
        let id = WorkerId(self.next_worker);
        self.next_worker += 1;
        self.workers.insert(id, Worker::new(self.now));
        let gpu = self.leases.take(id);
        if gpu.is_none() {
            self.tell_of_lost_gpus(id);
        }
        self.actions.push(Action::Spawn(id, gpu));
    }

    /// A process that cannot be killed keeps its GPU, and so does one whose memory the driver has not put away.
    fn tell_of_lost_gpus(&mut self, id: WorkerId) {
        let lost = self.leases.taken().find(|(_, holder)| !self.workers.contains_key(holder));
        let Some((index, holder)) = lost.filter(|(_, holder)| self.told_lost.insert(*holder))
        else {
            return;
        };
        let why = match self.leases.is_kept(holder) {
            true => "had it, and its memory there is still in use",
            false => "was killed, does not end, and still holds it",
        };
        self.notice(format!(
            "{id} starts without a GPU: GPU {index} is not free, as {holder} {why}"
        ));
    }

    pub(super) fn on_spawned(&mut self, worker: WorkerId, pid: u32) {
        self.told_spawn_trouble = false;
        if let Some(since) = self.waits_since.take() {
            self.progressed();
            self.waited += self.now.saturating_sub(since);
            let waited = self.now.saturating_sub(since).as_secs();
            self.notice(format!("the job goes on: there is room for it after {waited} s"));
        }
        let gpu_index = self.leases.of(worker);
        self.emit(EventKind::WorkerStarted { worker: worker.to_string(), pid, gpu_index });
    }

    /// The others go on; perhaps the machine has room again later.
    pub(super) fn on_spawn_failed(&mut self, worker: WorkerId, text: &str) {
        self.workers.remove(&worker);
        self.leases.release(worker);
        let text = format!("the worker process {worker} cannot be started: {text}");
        if self.workers.is_empty() {
            return self.fail(EndedBy::Spawn, text);
        }
        self.spawn_again_at = Some(self.now + Policy::SPAWN_PAUSE);
        if !self.told_spawn_trouble {
            self.told_spawn_trouble = true;
            let pause = Policy::SPAWN_PAUSE.as_secs();
            self.notice(format!("{text}; the others go on, and it is tried again every {pause} s"));
        }
    }

    /// Other jobs have the machine. It is tried again soon; meanwhile the job goes on with the workers
    /// that it has, or waits.
    pub(super) fn on_no_room(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        self.leases.release(worker);
        self.next_worker = self.next_worker.min(worker.0);
        self.room_again_at = Some(self.now + Policy::ROOM_PAUSE);
        // Those with higher numbers are about to get the same answer.
        let mut others = self.workers.range(..worker).map(|(_, worker)| worker).peekable();
        let alone = others.peek().is_none();
        if others.any(|worker| !worker.is_doomed()) {
            if !std::mem::replace(&mut self.told_no_room, true) {
                self.notice(format!(
                    "fewer than {} workers run: other jobs use the rest of what this machine gives \
                     to jobs (machine, in the operator's policy); more are started when there is \
                     room",
                    self.policy.workers
                ));
            }
            return;
        }
        // Waiting for others is no lack of progress, however long it takes.
        self.progressed();
        // A worker that is killed has its place until it is gone.
        if alone && self.waits_since.is_none() {
            self.waits_since = Some(self.now);
            self.notice(
                "the job waits for its turn: other jobs use all that this machine gives to jobs \
                 (machine, in the operator's policy)"
                    .to_owned(),
            );
        }
    }

    pub(super) fn on_ready(&mut self, id: WorkerId, stats: CallStats) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Activity::Starting(since) = worker.activity else { return self.stray(id) };
        worker.picked = self.now;
        worker.activity =
            if worker.held.is_empty() { Activity::Idle } else { Activity::Loading(self.now) };
        worker.good = true;
        worker.start_took = self.now.saturating_sub(since);
        self.init_succeeded();
        self.progressed();
        self.emit(EventKind::WorkerReady {
            worker: id.to_string(),
            start_seconds: self.now.saturating_sub(since).as_secs_f64(),
            init_seconds: stats.seconds,
            init_fuel: stats.fuel,
        });
        if self.ending.is_some() {
            self.shut_down(id);
        }
    }

    /// The time for `init` counts, and its failure is not that of the mini-batch that waits.
    pub(super) fn on_restarting(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && std::mem::take(&mut worker.may_restart)
            && matches!(worker.activity, Activity::Idle | Activity::Loading(_))
        {
            worker.activity = Activity::Starting(self.now);
            // What waits behind an `init` waits longer than it seems.
            worker.pace = None;
        } else {
            self.stray(id);
        }
    }

    /// A worker spoke out of turn, which is not believed. One that does so again and again keeps the
    /// leader busy, and is killed.
    pub(super) fn stray(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.strays += 1;
        if worker.strays > Policy::STRAYS && !worker.is_doomed() {
            let text = "the worker process spoke out of turn again and again; it was killed";
            self.on_overrun(id, Failure::new(FailureKind::WorkerDied, text));
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
        self.init_failed(id, failure);
    }

    /// A worker in `init` is killed for this; what it held goes back unharmed.
    pub(super) fn kill_in_init(&mut self, id: WorkerId, failure: Failure) {
        self.kill(id);
        let held = self.workers.get_mut(&id).map(|worker| std::mem::take(&mut worker.held));
        self.give_back(held.unwrap_or_default());
        self.init_failed(id, failure);
    }

    /// A worker uses more than it may, of memory or of the leader's time.
    pub(super) fn on_overrun(&mut self, id: WorkerId, failure: Failure) {
        match self.workers.get(&id).map(|worker| worker.activity) {
            Some(Activity::Starting(_)) => self.kill_in_init(id, failure),
            Some(Activity::Loading(_) | Activity::Running(_)) => self.kill_and_lose(id, failure),
            Some(Activity::Idle | Activity::ShuttingDown(_)) => {
                self.kill(id);
                self.notice(format!("{id} was killed while it had no mini-batch: {failure}"));
            }
            Some(Activity::Doomed(_)) | None => {}
        }
    }

    /// Kills a worker whose first mini-batch has failed by that.
    pub(super) fn kill_and_lose(&mut self, id: WorkerId, failure: Failure) {
        let running = self.workers.get(&id).and_then(|worker| worker.activity.running_since());
        self.kill(id);
        if let Some(worker) = self.workers.get_mut(&id) {
            let (held, picked) = (std::mem::take(&mut worker.held), worker.picked);
            self.lose_held(id, held, (picked, running), failure);
        }
    }

    /// The first mini-batch that a worker held has failed; the next ones go back unharmed. With when
    /// it was picked, and when `run` began if it did.
    fn lose_held(
        &mut self,
        id: WorkerId,
        mut held: VecDeque<Pending>,
        began: (Duration, Option<Duration>),
        failure: Failure,
    ) {
        let first = held.pop_front();
        self.give_back(held);
        if let Some(pending) = first {
            self.attempt_lost(id, pending, began, failure);
        }
    }

    /// A worker that ends by itself, as nobody knows what state its GPU is in; what it held goes back
    /// unharmed.
    pub(super) fn part_with(&mut self, id: WorkerId) {
        let held = self.workers.get_mut(&id).map(|worker| std::mem::take(&mut worker.held));
        self.give_back(held.unwrap_or_default());
        self.kill(id);
    }

    pub(super) fn give_back(&mut self, held: VecDeque<Pending>) {
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
            if matches!(worker.activity, Activity::Loading(_) | Activity::Running(_))
                && let Some(first) = worker.held.front()
            {
                self.abandoned.insert(id, (first.mini_batch.id, first.attempt));
            }
            worker.activity = Activity::Doomed(self.now);
            self.actions.push(Action::Kill(id));
        }
    }

    pub(super) fn kill_all(&mut self) {
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            self.kill(id);
            if let Some(worker) = self.workers.get_mut(&id) {
                let held = std::mem::take(&mut worker.held);
                self.give_back(held);
            }
        }
    }

    pub(super) fn shut_down(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !worker.is_doomed()
        {
            worker.activity = Activity::ShuttingDown(self.now);
            self.closed = true;
            self.actions.push(Action::Shutdown(id));
        }
    }

    pub(super) fn on_started(&mut self, id: WorkerId, batch: MiniBatchId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(first) = worker.held.front().filter(|first| first.mini_batch.id == batch) else {
            return self.stray(id);
        };
        if matches!(worker.activity, Activity::Loading(_)) {
            worker.activity = Activity::Running(self.now);
            self.begun += 1;
            let attempt = first.attempt;
            self.queue.begins(attempt);
            self.progressed();
            self.emit(EventKind::AttemptStarted { worker: id.to_string(), id: batch, attempt });
        } else {
            self.stray(id);
        }
    }

    pub(super) fn on_gpu_free(&mut self, id: WorkerId) {
        if let Some(index) = self.leases.of(id) {
            self.leases.release(id);
            self.notice(format!("GPU {index}, which {id} had, is free again"));
        }
    }

    pub(super) fn on_exited(&mut self, id: WorkerId, exit: &WorkerExit) {
        match exit.holds_gpu {
            true => self.leases.keep(id, self.now + Policy::GPU_PATIENCE),
            false => self.leases.release(id),
        }
        self.abandoned.remove(&id);
        // Its place is free.
        self.room_again_at = None;
        let Some(Worker { activity, held, picked, .. }) = self.workers.remove(&id) else {
            // The job has gone on without it; its end is told all the same.
            let how = describe_exit(exit);
            let worker = id.to_string();
            return self.emit(EventKind::WorkerExited { worker, how, expected: true });
        };
        let expected = match activity {
            Activity::Doomed(_) => true,
            Activity::ShuttingDown(_) => exit.code == Some(0),
            _ => false,
        };
        if matches!(activity, Activity::ShuttingDown(_)) && !exit.note.is_empty() {
            // All its mini-batches are done: nothing fails, but nothing is hidden either.
            self.notice(format!("{id} said at its end: {}", exit.note.trim_end()));
        }
        let how = describe_exit(exit);
        self.emit(EventKind::WorkerExited { worker: id.to_string(), how: how.clone(), expected });
        match activity {
            Activity::Starting(_) => {
                self.give_back(held);
                self.init_failed(id, death(exit, &how, "while it started"));
            }
            Activity::Loading(_) => {
                self.lose_held(id, held, (picked, None), death(exit, &how, "loading a mini-batch"));
            }
            Activity::Running(since) => {
                let began = (picked, Some(since));
                self.lose_held(id, held, began, death(exit, &how, "inside run"));
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

/// W6: a kill that neither the leader ordered nor a cgroup's limit is taken for the machine's
/// out-of-memory killer, unless that has killed nobody.
fn death(exit: &WorkerExit, how: &str, when: &str) -> Failure {
    if let Some(failure) = &exit.failure {
        return failure.clone().with_detail(exit.note.clone());
    }
    let (kind, hint) = match exit.signal {
        Some(9) if exit.not_for_memory => (
            FailureKind::WorkerDied,
            "; somebody or something else sent it that signal: the kernel has killed no process for \
             lack of memory since the job began",
        ),
        Some(9) => (
            FailureKind::OutOfMemory,
            "; it was killed from outside, most often because the machine ran out of memory: use \
             fewer workers (process_count_per_node) or a lower limits.memory",
        ),
        Some(libc::SIGSYS) => (
            FailureKind::Forbidden,
            "; the system-call filter ended it, because it asked the kernel for something that no \
             entry script needs. Take the entry script for hostile, and report this",
        ),
        // What the standard library says before it aborts; the kernel's refusal is that of a limit.
        Some(libc::SIGABRT) if exit.note.contains("memory allocation of ") => (
            FailureKind::OutOfMemory,
            "; it was refused memory, for a mini-batch that is too large or a model that takes more \
             than its file: make mini_batch_size smaller, or raise limits.memory or limits.tensors, \
             which its budget follows",
        ),
        _ => (FailureKind::WorkerDied, ""),
    };
    Failure::new(kind, format!("the worker process {how} {when}{hint}"))
        .with_detail(exit.note.clone())
}
