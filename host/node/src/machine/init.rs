//! Workers inside `init`, and failures of `init` (rule I1 in `docs/parallel-run-step.md`). A failure is an
//! error or trap in `init`, a component that cannot be loaded, a worker that ends before it is ready, and an
//! `init` that is killed for time or memory. Only failures in a row count: an `init` that succeeds resets the
//! count, because the newest documentation of ParallelRunStep says "continuously".

use super::NodeMachine;
use super::worker::{Activity, LiveWorker};
use crate::model::{CallStats, Failure, FailureKind, WorkerId};
use crate::protocol::{NodeNews, NodePolicy};

impl NodeMachine {
    pub(super) fn on_ready(&mut self, id: WorkerId, init: CallStats) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Activity::Starting(since) = worker.activity else { return self.stray(id) };
        worker.picked = self.now;
        worker.activity =
            if worker.held.is_empty() { Activity::Idle } else { Activity::Loading(self.now) };
        worker.has_initialized = true;
        let start = self.now.saturating_sub(since);
        worker.start_took = start;
        self.init_failures_in_a_row = 0;
        self.report(NodeNews::Ready { worker: id, start, init });
        if self.is_ending {
            self.shut_down(id);
        }
    }

    /// Handles a worker that makes a new instance. The time-out of `init` applies. A failure of
    /// `init` does not count as an attempt at the waiting mini-batch.
    pub(super) fn on_restarting(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && std::mem::take(&mut worker.may_restart)
            && matches!(worker.activity, Activity::Idle | Activity::Loading(_))
        {
            worker.activity = Activity::Starting(self.now);
            // The queued mini-batches wait for `init`, which the pace does not include.
            worker.forget_pace();
        } else {
            self.stray(id);
        }
    }

    /// A worker whose `init` failed ends by itself. Its attempts are returned to the leader.
    pub(super) fn on_init_failed(&mut self, id: WorkerId, failure: Failure) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.is_doomed() {
            return;
        }
        worker.activity = Activity::Doomed(self.now);
        self.give_back_of(id);
        self.init_failed(id, failure);
    }

    /// Kills a worker in `init` because of this failure. Its attempts are returned to the leader.
    pub(super) fn kill_in_init(&mut self, id: WorkerId, failure: Failure) {
        self.kill(id);
        self.give_back_of(id);
        self.init_failed(id, failure);
    }

    /// Reports and counts a failure of `init`. A full disk is not a fault of `init`, so it does not count.
    pub(super) fn init_failed(&mut self, id: WorkerId, failure: Failure) {
        if failure.kind != FailureKind::NoSpace {
            self.init_failures_in_a_row += 1;
        }
        self.report(NodeNews::InitFailed { worker: id, failure });
    }

    /// I1: how many more workers may be started. We subtract the workers that are inside `init`,
    /// because their `init` may still fail.
    pub(super) fn starts_left(&self) -> usize {
        let is_starting = |worker: &&LiveWorker| matches!(worker.activity, Activity::Starting(_));
        let starting = self.workers.values().filter(is_starting).count();
        let allowed = NodePolicy::init_failures_allowed(self.policy.workers) as usize;
        allowed.saturating_sub(self.init_failures_in_a_row as usize + starting)
    }
}
