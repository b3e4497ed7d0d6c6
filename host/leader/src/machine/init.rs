//! Failures of `init` (prs-semantics I1, I2). What counts as one: an error or trap in `init`, a
//! component that cannot be loaded, the death of a worker before it is ready, and an `init` that is
//! killed for time or memory. One `init` that succeeds resets the count: the newest documentation
//! says "continuously".

use super::types::{Activity, Worker};
use super::{Machine, Policy};
use crate::event::EventKind;
use crate::model::{EndedBy, Failure, FailureKind, FirstFailure, WorkerId};
use std::time::Duration;

impl Machine {
    /// Tells of it and counts it.
    pub(super) fn init_failed(&mut self, id: WorkerId, failure: Failure) {
        self.emit(EventKind::InitFailed { worker: id.to_string(), failure: failure.clone() });
        if failure.kind == FailureKind::NoSpace {
            return self.fail(EndedBy::Commit, failure.message);
        }
        self.init_failures_in_a_row += 1;
        self.init_failure.get_or_insert(FirstFailure {
            mini_batch: None,
            worker: Some(id.to_string()),
            item: None,
            failure,
        });
    }

    pub(super) fn init_succeeded(&mut self) {
        self.init_failures_in_a_row = 0;
        self.init_failure = None;
        self.told_init_stop = false;
    }

    /// I1: so many failures that no new workers are started.
    pub(super) fn is_init_hopeless(&self) -> bool {
        self.init_failures_in_a_row >= self.policy.init_failures_allowed()
    }

    /// I1: how many more workers may be started. Those that are inside `init` may fail too, and one that
    /// is started beside them could only fail in vain.
    pub(super) fn starts_left(&self) -> usize {
        let starting = |worker: &&Worker| matches!(worker.activity, Activity::Starting(_));
        let starting = self.workers.values().filter(starting).count();
        let allowed = self.policy.init_failures_allowed() as usize;
        allowed.saturating_sub(self.init_failures_in_a_row as usize + starting)
    }

    /// I1 and I2. The job goes on as long as there is a worker whose `init` succeeded.
    pub(super) fn check_init_rules(&mut self) {
        if self.init_failures_in_a_row == 0 || self.ending.is_some() {
            return;
        }
        let failures = self.init_failures_in_a_row;
        if self.workers.values().any(|worker| worker.good && !worker.is_doomed()) {
            if self.is_init_hopeless() && !self.told_init_stop {
                self.told_init_stop = true;
                self.notice(format!(
                    "init failed {failures} times in a row: no new workers are started, the job \
                     goes on with those that work"
                ));
            }
            return;
        }
        let old = self.now > Policy::INIT_FAILURE_AGE;
        if self.is_init_hopeless() || (old && self.init_fails_too_often_when_old()) {
            let message = self.init_failure.as_ref().map(|first| first.failure.message.as_str());
            self.fail(
                EndedBy::InitFailures,
                format!(
                    "init failed {failures} times in a row, on every worker that was started: {}",
                    message.unwrap_or_default()
                ),
            );
        }
    }

    fn init_fails_too_often_when_old(&self) -> bool {
        self.init_failures_in_a_row > self.policy.init_failures_when_old()
    }

    /// When I2 begins to hold although no further `init` fails.
    pub(super) fn init_rules_deadline(&self) -> Option<Duration> {
        let good = || self.workers.values().any(|worker| worker.good && !worker.is_doomed());
        let due = self.ending.is_none()
            && self.now <= Policy::INIT_FAILURE_AGE
            && self.init_fails_too_often_when_old()
            && !good();
        due.then_some(Policy::INIT_FAILURE_AGE + Duration::from_millis(1))
    }
}
