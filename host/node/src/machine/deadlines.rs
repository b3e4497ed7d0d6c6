//! The time-outs of individual workers. Each message names the stage, the setting and its value.

use super::worker::{Activity, LiveWorker};
use super::{NodeAction, NodeMachine};
use crate::model::{Failure, FailureKind, WorkerId};
use crate::protocol::NodePolicy;
use std::time::Duration;

impl NodeMachine {
    /// When [`Tick`](super::NodeMessage::Tick) is due at the latest, if nothing else happens.
    /// `None` if nothing is due. A pause before new workers are started does not count if it was
    /// already over at the last event: the leader wanted no more workers then.
    pub fn next_deadline(&self) -> Option<Duration> {
        let past_init = self.is_one_past_init();
        let may_start_later = |at: &Duration| !self.is_ending && self.now < *at;
        self.workers
            .values()
            .filter_map(|worker| self.deadline_of(worker, past_init))
            .chain(self.spawn_again_at.filter(may_start_later))
            .chain(self.room_again_at.filter(may_start_later))
            .chain(self.leases.next_end(self.now).filter(may_start_later))
            .min()
    }

    /// When something must happen if this worker sends nothing.
    fn deadline_of(&self, worker: &LiveWorker, past_init: bool) -> Option<Duration> {
        let (since, time_out) = match worker.activity {
            // A slow store is not the worker's fault.
            Activity::Loading(_) if worker.awaits_objects() => return None,
            Activity::Loading(since) => (since, self.policy.load_timeout),
            Activity::Running(since) | Activity::ShuttingDown(since) => {
                (since, self.policy.run_timeout)
            }
            Activity::Doomed(since) => (since, NodePolicy::KILL_GRACE),
            // If all workers on all nodes are starting, the leader decides (rule I3 in
            // `docs/parallel-run-step.md`).
            Activity::Starting(since) if past_init => {
                (since, NodePolicy::init_timeout(self.policy.run_timeout))
            }
            Activity::Starting(_) | Activity::Idle => return None,
        };
        Some(since.saturating_add(time_out))
    }

    fn is_one_past_init(&self) -> bool {
        self.past_init_elsewhere || self.workers.values().any(LiveWorker::is_past_init)
    }

    /// Kills the workers that are late. Called only for a tick: the node handles messages first, so
    /// a process whose exit was already reported is not late.
    pub(super) fn check_deadlines(&mut self) {
        let past_init = self.is_one_past_init();
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in ids {
            let worker = self.workers.get(&id);
            let deadline = worker.and_then(|worker| self.deadline_of(worker, past_init));
            if deadline.is_some_and(|at| self.now >= at) {
                self.time_out(id);
            }
        }
        self.workers.values_mut().for_each(|worker| worker.inferring = None);
    }

    /// The workers whose guest is inside `init` or `run`, each with the time that the call has
    /// taken.
    pub fn inside_guests(&self, now: Duration) -> impl Iterator<Item = (WorkerId, Duration)> {
        self.workers.iter().filter_map(move |(id, worker)| match worker.activity {
            Activity::Starting(since) | Activity::Running(since) => {
                Some((*id, now.saturating_sub(since)))
            }
            _ => None,
        })
    }

    pub(super) fn on_inferring(&mut self, id: WorkerId, model_call: String) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.inferring = Some(model_call);
        }
    }

    fn time_out(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let run_timeout = self.policy.run_timeout.as_secs_f64();
        let inferring = match &worker.inferring {
            Some(model_call) => format!(", and was {model_call}"),
            None => String::new(),
        };
        let failure = match worker.activity {
            Activity::Running(_) => Failure::new(
                FailureKind::Timeout,
                format!(
                    "run took longer than run_invocation_timeout ({run_timeout} s){inferring}; the worker \
                     was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)"
                ),
            ),
            Activity::Loading(_) => Failure::new(
                FailureKind::LoadTimeout,
                format!(
                    "loading the mini-batch took longer than task_overhead_timeout ({} s); the \
                     worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)",
                    self.policy.load_timeout.as_secs_f64()
                ),
            ),
            Activity::ShuttingDown(_) => {
                self.notice(format!(
                    "{id}: shutdown took longer than run_invocation_timeout ({run_timeout} s); the \
                     worker was killed"
                ));
                return self.kill(id);
            }
            Activity::Starting(_) => return self.time_out_init(id, &inferring),
            Activity::Doomed(_) => {
                self.workers.remove(&id);
                self.act(NodeAction::Kill(id));
                return self.notice(format!(
                    "{id} was killed and does not end; the job continues without it"
                ));
            }
            Activity::Idle => return,
        };
        self.kill_and_lose(id, failure);
    }

    /// Kills a worker that hangs in `init` while others do not.
    fn time_out_init(&mut self, id: WorkerId, inferring: &str) {
        let failure = Failure::new(
            FailureKind::Timeout,
            format!(
                "init took longer than {} s (3 x run_invocation_timeout + 30 s){inferring}; the worker was \
                 killed. Do less in init, or raise run_invocation_timeout",
                NodePolicy::init_timeout(self.policy.run_timeout).as_secs_f64()
            ),
        );
        self.kill_in_init(id, failure);
    }
}
