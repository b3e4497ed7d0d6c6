//! Starts, kills and ends workers.

use super::worker::{Activity, LiveWorker};
use super::{NodeAction, NodeMachine};
use crate::model::{Failure, FailureKind, WorkerId};
use crate::protocol::{NodeNews, NodePolicy, OtherWorkers};
use std::cmp::Reverse;

impl NodeMachine {
    /// Starts workers until there are as many as wanted. There are fewer only if the job is ending, if `init`
    /// keeps failing (rule I1 in `docs/parallel-run-step.md`), if the machine has no room for another
    /// process, if its disk is full, if a start failed a moment ago, or if new workers wait for a GPU.
    pub(super) fn spawn_wanted(&mut self, wanted: u32) {
        if self.is_ending || self.is_full || self.is_pausing() {
            return;
        }
        // A killed worker with a GPU counts until it is gone, because the next worker will get its
        // GPU (G1).
        let counts = |id: &WorkerId, worker: &LiveWorker| {
            !worker.is_doomed()
                || (!self.policy.gpus.is_empty() && self.leases.gpu_of(*id).is_some())
        };
        let present = self.workers.iter().filter(|(id, worker)| counts(id, worker)).count();
        let missing = (wanted as usize).saturating_sub(present);
        let awaited = self.leases.awaited(missing, self.now);
        for _ in 0..missing.saturating_sub(awaited).min(self.starts_left()) {
            self.spawn();
        }
    }

    /// Whether we start no workers for now: a moment ago, the machine had no room for one, or a
    /// start failed.
    pub(super) fn is_pausing(&self) -> bool {
        let pauses = [self.spawn_again_at, self.room_again_at];
        pauses.into_iter().flatten().any(|until| self.now < until)
    }

    fn spawn(&mut self) {
        let id = WorkerId(self.next_worker);
        self.next_worker += 1;
        self.workers.insert(id, LiveWorker::new(self.now));
        let gpu = self.leases.lease(id);
        if gpu.is_none() {
            self.report_lost_gpus(id);
        }
        self.act(NodeAction::Spawn(id, gpu));
    }

    /// Notifies the user if a GPU is lost: its worker was killed but does not end, or the worker
    /// has ended but the driver has not freed the GPU's memory.
    fn report_lost_gpus(&mut self, id: WorkerId) {
        let lost = self.leases.taken().find(|(_, holder)| !self.workers.contains_key(holder));
        let Some((index, holder)) = lost.filter(|(_, holder)| self.reported_lost.insert(*holder))
        else {
            return;
        };
        let why = match self.leases.is_kept(holder) {
            true => "has ended, but its GPU memory is still in use",
            false => "was killed but does not end",
        };
        self.notice(format!(
            "{id} starts without a GPU: GPU {index} is not free, as {holder} {why}"
        ));
    }

    pub(super) fn on_spawned(&mut self, worker: WorkerId, pid: u32) {
        let gpu = self.leases.gpu_of(worker);
        self.report(NodeNews::Spawned { worker, pid, gpu });
    }

    /// Handles a worker process that could not be started. The other workers continue, and we try
    /// again later.
    pub(super) fn on_spawn_failed(&mut self, worker: WorkerId, reason: String) {
        self.workers.remove(&worker);
        self.leases.release(worker);
        self.spawn_again_at = Some(self.now + NodePolicy::SPAWN_PAUSE);
        self.report(NodeNews::SpawnFailed { worker, reason, is_alone: self.workers.is_empty() });
    }

    /// Handles a worker that was not started because other jobs use the whole machine. We try again
    /// soon.
    pub(super) fn on_no_room(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        self.leases.release(worker);
        self.next_worker = self.next_worker.min(worker.0);
        self.room_again_at = Some(self.now + NodePolicy::ROOM_PAUSE);
        // Workers with higher numbers do not count: they will find no slot either.
        let mut others = self.workers.range(..worker).map(|(_, worker)| worker.is_doomed());
        let other_workers = match (others.next(), others.all(|is_doomed| is_doomed)) {
            (None, _) => OtherWorkers::Alone,
            (Some(true), true) => OtherWorkers::Ending,
            _ => OtherWorkers::Working,
        };
        self.report(NodeNews::NoRoom(other_workers));
    }

    /// Ignores a message that a worker sent out of turn. A worker that does so repeatedly keeps the node
    /// busy, and is killed.
    pub(super) fn stray(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.strays += 1;
        if worker.strays > NodePolicy::STRAYS && !worker.is_doomed() {
            let text = "the worker process kept sending messages out of turn; it was killed";
            self.on_overrun(id, Failure::new(FailureKind::WorkerDied, text));
        }
    }

    /// Kills a worker that uses more memory, or more of the node's time, than it may.
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

    /// Kills a worker. Its attempts are returned to the leader, and do not count as failed.
    pub(super) fn kill_and_return(&mut self, id: WorkerId) {
        self.give_back_of(id);
        self.kill(id);
    }

    pub(super) fn kill(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !worker.is_doomed()
        {
            if matches!(worker.activity, Activity::Loading(_) | Activity::Running(_))
                && let Some(first) = worker.held.front()
            {
                self.abandoned.insert(id, (first.id, first.attempt));
            }
            worker.activity = Activity::Doomed(self.now);
            self.waiting.remove(&id);
            self.act(NodeAction::Kill(id));
        }
    }

    pub(super) fn shut_down(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !worker.is_doomed()
        {
            worker.activity = Activity::ShuttingDown(self.now);
            self.report(NodeNews::Closing);
            self.act(NodeAction::Shutdown(id));
        }
    }

    /// Asks the workers without an attempt to end.
    pub(super) fn retire(&mut self) {
        let idle = self.workers.iter().filter(|(_, worker)| worker.activity == Activity::Idle);
        let ids: Vec<WorkerId> = idle.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.shut_down(id));
    }

    /// Ends the workers after all mini-batches have ended.
    pub(super) fn end_done(&mut self) {
        self.is_ending = true;
        for (id, activity) in self.activities() {
            match activity {
                // A worker that is still starting is no longer needed.
                Activity::Starting(_) => self.kill(id),
                Activity::Doomed(_) | Activity::ShuttingDown(_) => {}
                _ => self.shut_down(id),
            }
        }
    }

    /// Ends the workers of a cancelled job: running mini-batches may finish.
    pub(super) fn end_orderly(&mut self) {
        self.is_ending = true;
        for (id, activity) in self.activities() {
            match activity {
                Activity::Idle => self.shut_down(id),
                Activity::Starting(_) | Activity::Loading(_) => {
                    self.kill(id);
                    self.give_back_of(id);
                }
                // The running mini-batch may finish; the next ones are returned.
                Activity::Running(_) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.drops_next |= worker.held.len() > 1;
                        let next = worker.held.split_off(1.min(worker.held.len()));
                        self.give_back(next);
                    }
                }
                Activity::ShuttingDown(_) | Activity::Doomed(_) => {}
            }
        }
    }

    /// Lets so many workers end, with those that end already. Those without a mini-batch come first. The others finish the few
    /// mini-batches that they have, and get no more. Workers that start are left alone until they have had work: otherwise, two
    /// jobs with a slow `init` could take a slot from each other for ever.
    pub(super) fn retire_beyond_share(&mut self, workers: u32) {
        let leaving = self.workers.values().filter(|worker| worker.is_leaving()).count();
        let wanted = workers as usize;
        let kept = self.workers.values_mut().filter(|worker| worker.retires && worker.has_work());
        kept.take(leaving.saturating_sub(wanted)).for_each(|worker| worker.retires = false);
        let now = self.now;
        // A worker that waits for a decision of the leader will have one soon.
        let may_end = |(id, worker): &(&WorkerId, &LiveWorker)| {
            !worker.is_leaving() && worker.has_had_work(now) && !self.waiting.contains_key(id)
        };
        let ending = self.workers.iter().filter(may_end);
        let mut ending: Vec<_> =
            ending.map(|(id, worker)| (worker.has_work(), Reverse(*id))).collect();
        ending.sort_unstable();
        for (has_work, Reverse(id)) in ending.into_iter().take(wanted.saturating_sub(leaving)) {
            if has_work { self.retire_after_work(id) } else { self.shut_down(id) }
        }
    }

    /// Lets a worker end after the mini-batches that it has. Those whose objects are still being fetched go back to the leader.
    fn retire_after_work(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.retires = true;
        let awaiting = worker.held.iter().filter(|held| held.awaits_objects);
        let awaiting: Vec<_> = awaiting.map(|held| (held.id, held.attempt)).collect();
        awaiting.iter().for_each(|attempt| self.withdraw(id, *attempt));
        if !awaiting.is_empty() {
            self.report(NodeNews::Returned(awaiting));
        }
        if self.workers.get(&id).is_some_and(|worker| worker.activity == Activity::Idle) {
            self.shut_down(id);
        }
    }

    pub(super) fn kill_all(&mut self) {
        self.is_ending = true;
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            self.kill(id);
            self.give_back_of(id);
        }
    }

    fn activities(&self) -> Vec<(WorkerId, Activity)> {
        self.workers.iter().map(|(id, worker)| (*id, worker.activity)).collect()
    }
}
