//! The rules for failures of `init` on all nodes together (I1 and I2 in docs/parallel-run-step.md). The crate
//! `node` decides what counts as a failure of `init`.

use super::JobMachine;
use super::node::JobNode;
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{EndedBy, Failure, FailureKind, FirstFailure, WorkerId, count_u32};
use crate::protocol::NodePolicy;
use std::time::Duration;

impl JobMachine {
    pub(super) fn on_init_failed(&mut self, id: WorkerId, failure: Failure) {
        self.emit(EventKind::InitFailed { worker: id.to_string(), failure: failure.clone() });
        if failure.kind == FailureKind::NoSpace {
            return self.fail(EndedBy::Commit, failure.message);
        }
        self.init_failure.get_or_insert(FirstFailure {
            mini_batch: None,
            worker: Some(id.to_string()),
            item: None,
            failure,
        });
    }

    pub(super) fn init_succeeded(&mut self) {
        self.init_failure = None;
        self.reported_init_stop = false;
    }

    /// Rule I1: whether `init` has failed so often on a node that the node starts no new workers.
    pub(super) fn is_hopeless(&self, node: &JobNode) -> bool {
        node.standing.init_failures >= NodePolicy::init_failures_allowed(node.workers)
    }

    fn is_init_hopeless(&self) -> bool {
        self.nodes.values().all(|node| self.is_hopeless(node))
    }

    /// The number of consecutive failures of `init`, summed over all nodes.
    fn init_failures(&self) -> u32 {
        self.nodes.values().map(|node| node.standing.init_failures).sum()
    }

    fn has_good_worker(&self) -> bool {
        self.nodes.values().any(|node| node.standing.has_good)
    }

    /// I1 and I2. The job continues as long as there is a worker whose `init` succeeded.
    pub(super) fn check_init_rules(&mut self) {
        let failures = self.init_failures();
        if failures == 0 || self.ending.is_some() {
            return;
        }
        if self.has_good_worker() {
            if self.is_init_hopeless() && !self.reported_init_stop {
                self.reported_init_stop = true;
                self.notice(format!(
                    "init failed {failures} times in a row: no new workers are started, and \
                     the job continues with the workers that it has"
                ));
            }
            return;
        }
        let is_old = self.now > RetryPolicy::INIT_FAILURE_AGE;
        if self.is_init_hopeless() || (is_old && self.init_fails_too_often_when_old()) {
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
        let most_per_node = self.policy.init_failures_when_old();
        self.init_failures() > most_per_node.saturating_mul(count_u32(self.nodes.len().max(1)))
    }

    /// The time at which the job fails because it becomes too old for its failures of `init` (rule
    /// I2). `None` if the job does not fail for this reason without a further failure of `init`.
    pub(super) fn init_rules_deadline(&self) -> Option<Duration> {
        let due = self.ending.is_none()
            && self.now <= RetryPolicy::INIT_FAILURE_AGE
            && self.init_fails_too_often_when_old()
            && !self.has_good_worker();
        due.then_some(RetryPolicy::INIT_FAILURE_AGE + Duration::from_millis(1))
    }
}
