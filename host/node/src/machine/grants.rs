//! Assigns attempts to workers, and handles what the workers report about them.

use super::worker::{Activity, HeldAttempt};
use super::{NodeAction, NodeMachine};
use crate::model::{AttemptReport, AttemptUsage, Failure, FailureKind, MiniBatchId, WorkerId};
use crate::protocol::store::UnfetchedObject;
use crate::protocol::{Assignment, Grant, NodeNews};
use std::collections::VecDeque;
use std::time::Duration;

impl NodeMachine {
    /// Gives an attempt to a worker that has none. A retry goes to another worker than the one on
    /// which the mini-batch failed, if another one is free. If no worker is free, the retry goes to
    /// a worker that waits after a failed attempt.
    pub(super) fn begin(&mut self, grant: Grant) {
        let Grant { assignment, failed_on } = grant;
        // A waiting worker must not wait for objects: they may need the room that those of its queue take.
        let is_quick = assignment.attempt > 1 && !assignment.must_fetch();
        let takes_retry = |(_, takes): &(&WorkerId, &bool)| **takes && is_quick;
        let waiting = self.waiting.iter().find(takes_retry).map(|(id, _)| *id);
        match self.free_worker(failed_on).or(waiting) {
            Some(id) if !self.is_full => self.assign(id, assignment),
            // The order may have crossed the message that the disk is full.
            _ => {
                let returned = (assignment.mini_batch.id, assignment.attempt);
                self.report(NodeNews::Returned(vec![returned]));
            }
        }
    }

    /// Returns a worker without a mini-batch. Returns `avoided` only if no other worker is free.
    fn free_worker(&self, avoided: Option<WorkerId>) -> Option<WorkerId> {
        let free = self.workers.iter().filter(|(_, worker)| worker.is_free());
        let mut free = free.map(|(id, _)| *id);
        let first = free.next()?;
        if Some(first) == avoided { free.next().or(Some(first)) } else { Some(first) }
    }

    /// Gives the attempts to the workers with the fewest attempts, one to each of them in turn. Meanwhile, workers may have
    /// become idle or slower than they were when the node offered them for more attempts. They still get them: otherwise,
    /// attempts would go back and forth while workers idle.
    pub(super) fn grant_ahead(&mut self, assignments: Vec<Assignment>) {
        let mut assignments = assignments.into_iter();
        while assignments.len() > 0 {
            if let Some(id) = self.free_worker(None).filter(|_| !self.is_ending && !self.is_full) {
                assignments.by_ref().take(1).for_each(|first| self.assign(id, first));
                continue;
            }
            let takers = self.takers(|worker| worker.has_room(self.policy.queues));
            if takers.is_empty() {
                break;
            }
            for ((id, _), assignment) in takers.into_iter().zip(&mut assignments) {
                self.assign(id, assignment);
            }
        }
        let left: Vec<(MiniBatchId, u32)> =
            assignments.map(|left| (left.mini_batch.id, left.attempt)).collect();
        if !left.is_empty() {
            self.report(NodeNews::Returned(left));
        }
    }

    fn assign(&mut self, id: WorkerId, assignment: Assignment) {
        // A waiting worker must not wait for objects.
        let may_come_first = assignment.attempt > 1 && !assignment.must_fetch();
        let comes_first = may_come_first && self.waiting.remove(&id).is_some();
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let held = HeldAttempt::new(&assignment);
        if comes_first {
            worker.held.push_front(held);
        } else {
            worker.held.push_back(held);
        }
        if worker.activity == Activity::Idle {
            worker.activity = Activity::Loading(self.now);
            worker.picked = self.now;
        }
        self.act(match comes_first {
            true => NodeAction::AssignFirst(id, assignment),
            false => NodeAction::Assign(id, assignment),
        });
    }

    /// Lets the workers that wait after a failed attempt continue.
    pub(super) fn resume_waiting(&mut self) {
        for id in std::mem::take(&mut self.waiting).into_keys() {
            let Some(worker) = self.workers.get(&id) else { continue };
            if matches!(worker.activity, Activity::Idle | Activity::Loading(_)) {
                self.act(NodeAction::GoOn(id));
            }
        }
    }

    pub(super) fn on_started(&mut self, id: WorkerId, batch: MiniBatchId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(first) = worker.held.front().filter(|first| first.id == batch) else {
            return self.stray(id);
        };
        if matches!(worker.activity, Activity::Loading(_)) {
            worker.activity = Activity::Running(self.now);
            let attempt = first.attempt;
            self.report(NodeNews::Started { worker: id, id: batch, attempt });
        } else {
            self.stray(id);
        }
    }

    pub(super) fn on_finished(&mut self, id: WorkerId, report: Box<AttemptReport>) {
        if self.abandoned.get(&id) == Some(&(report.id, report.attempt)) {
            return self.discard_late(id, &report);
        }
        let Some(worker) = self.workers.get_mut(&id) else { return };
        // We ignore the report of a killed worker, and a report about an attempt that the worker
        // does not hold.
        let is_held =
            |first: &&HeldAttempt| first.id == report.id && first.attempt == report.attempt;
        let Some(first) = worker.held.front().filter(is_held) else { return self.stray(id) };
        if worker.is_doomed() {
            return;
        }
        if !first.fits(&report) {
            let failure = Failure::new(
                FailureKind::WorkerDied,
                "the worker process sent a report with impossible numbers; it was killed",
            );
            return self.kill_and_lose(id, failure);
        }
        let Some(held) = worker.held.pop_front() else { return };
        let age = self.now.saturating_sub(worker.picked);
        let has_run = worker.activity.running_since().is_some();
        worker.picked = self.now;
        worker.took(report.elapsed_seconds, self.policy.queues);
        worker.may_restart = true;
        worker.activity =
            if worker.held.is_empty() { Activity::Idle } else { Activity::Loading(self.now) };
        let drops_next = worker.drops_next;
        let retires = worker.retires;
        let has_retired = retires && worker.held.is_empty();
        let failure = report.outcome.as_ref().err();
        let failed_with = |kind| failure.is_some_and(|failure| failure.kind == kind);
        let gpu_is_broken = failed_with(FailureKind::DeviceOutOfMemory);
        let disk_is_full = failed_with(FailureKind::NoSpace);
        let restarts_slowly =
            worker.starts_slowly() && failure.is_some_and(|failure| failure.kind.breaks_instance());
        let awaits_decision = failure.is_some_and(|failure| held.awaits_decision(failure));
        // The caller measures what the attempt used.
        let usage = AttemptUsage::default();
        self.report(NodeNews::Finished { worker: id, age, has_run, usage, report });
        match (self.is_ending || has_retired, drops_next) {
            // If the disk is full, the leader ends the job immediately.
            _ if disk_is_full => {}
            (true, true) => self.kill(id),
            (true, false) => self.shut_down(id),
            (false, _) if awaits_decision && !gpu_is_broken => {
                self.waiting.insert(id, !restarts_slowly && !held.has_objects && !retires);
            }
            (false, _) => {}
        }
        if gpu_is_broken {
            self.kill_and_return(id);
        }
        self.end_cancelled(id);
    }

    /// Ends an attempt, because its mini-batch has succeeded on another node. If the attempt is still in a
    /// worker's queue, it ends when its turn comes.
    pub(super) fn cancel(&mut self, id: MiniBatchId, attempt: u32) {
        let found = self.workers.iter_mut().find_map(|(worker, live)| {
            let mut held = live.held.iter_mut();
            Some((*worker, held.find(|held| held.id == id && held.attempt == attempt)?))
        });
        // If no worker has it, the report of its end is on its way to the leader.
        let Some((worker, held)) = found else { return };
        if held.awaits_objects {
            return self.withdraw(worker, (id, attempt));
        }
        held.is_cancelled = true;
        self.end_cancelled(worker);
    }

    /// Takes back an attempt that its worker does not have yet.
    pub(super) fn withdraw(&mut self, worker: WorkerId, (id, attempt): (MiniBatchId, u32)) {
        if let Some(live) = self.workers.get_mut(&worker)
            && live.remove_awaiting((id, attempt), self.now)
        {
            self.act(NodeAction::Withdraw(worker, id, attempt));
        }
    }

    /// Notes that a worker gets an attempt, whose objects are here. Its time to load begins.
    pub(super) fn on_fetched(&mut self, worker: WorkerId, (id, attempt): (MiniBatchId, u32)) {
        let Some(live) = self.workers.get_mut(&worker) else { return };
        let is_it = |held: &&mut HeldAttempt| (held.id, held.attempt) == (id, attempt);
        let Some(held) = live.held.iter_mut().find(is_it) else { return };
        held.awaits_objects = false;
        let is_first = live.held.front().is_some_and(|first| first.id == id);
        if is_first && matches!(live.activity, Activity::Loading(_)) {
            live.activity = Activity::Loading(self.now);
            live.picked = self.now;
        }
    }

    /// Returns an attempt to the leader, because these objects could not be fetched.
    pub(super) fn on_unfetched(
        &mut self,
        worker: WorkerId,
        (id, attempt): (MiniBatchId, u32),
        objects: Vec<UnfetchedObject>,
    ) {
        let Some(live) = self.workers.get_mut(&worker) else { return };
        if live.remove_awaiting((id, attempt), self.now) {
            self.report(NodeNews::Unfetched { id, attempt, objects });
        }
    }

    /// Kills a worker whose first attempt is cancelled: a call of `run` cannot be ended in another way. The
    /// worker's other attempts are returned to the leader.
    fn end_cancelled(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.held.pop_front_if(|first| first.is_cancelled).is_some() {
            self.kill_and_return(id);
        }
    }

    /// Discards a report that came after its worker was killed. When we killed the worker, we
    /// reported the attempt as lost, so another worker may run the mini-batch now. A mini-batch
    /// must be committed only once.
    fn discard_late(&mut self, id: WorkerId, report: &AttemptReport) {
        self.abandoned.remove(&id);
        self.report(NodeNews::Late {
            worker: id,
            id: report.id,
            attempt: report.attempt,
            succeeded: report.outcome.is_ok(),
        });
    }

    /// Kills a worker and reports that its first attempt has failed.
    pub(super) fn kill_and_lose(&mut self, id: WorkerId, failure: Failure) {
        let running = self.workers.get(&id).and_then(|worker| worker.activity.running_since());
        self.kill(id);
        if let Some(worker) = self.workers.get_mut(&id) {
            let picked = worker.picked;
            let held = std::mem::take(&mut worker.held);
            self.lose_held(id, held, (picked, running), failure);
        }
    }

    /// Reports that the first of a worker's attempts has failed. Its other attempts are returned to the
    /// leader, and do not count as failed. `picked`: when the worker began the first attempt. `running`: when
    /// it called `run`; `None` if it did not.
    pub(super) fn lose_held(
        &mut self,
        id: WorkerId,
        mut held: VecDeque<HeldAttempt>,
        (picked, running): (Duration, Option<Duration>),
        failure: Failure,
    ) {
        // The worker does not have an attempt whose objects are still being fetched.
        let first = held.pop_front_if(|first| !first.awaits_objects);
        self.give_back(held);
        if let Some(first) = first {
            let since = |at: Duration| self.now.saturating_sub(at);
            let age = since(picked);
            let run = running.map(since);
            // The caller measures what the attempt used.
            let process_seconds = 0.0;
            let usage = AttemptUsage::default();
            self.report(NodeNews::Lost {
                worker: id,
                id: first.id,
                attempt: first.attempt,
                age,
                run,
                process_seconds,
                usage,
                failure,
            });
        }
    }

    /// Returns attempts to the leader. They do not count as failed.
    pub(super) fn give_back(&mut self, held: VecDeque<HeldAttempt>) {
        if !held.is_empty() {
            let returned = held.into_iter().map(|held| (held.id, held.attempt));
            self.report(NodeNews::Returned(returned.collect()));
        }
    }

    /// Returns all attempts of a worker to the leader. They do not count as failed.
    pub(super) fn give_back_of(&mut self, id: WorkerId) {
        let held = self.workers.get_mut(&id).map(|worker| std::mem::take(&mut worker.held));
        self.give_back(held.unwrap_or_default());
    }
}
