//! The rules for failures of `init` on all nodes together (I1 and I2 in docs/parallel-run-step.md). The crate
//! `node` decides what counts as a failure of `init`.

use super::JobMachine;
use super::node::JobNode;
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{EndedBy, Failure, FailureKind, FirstFailure, WorkerId};
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
        self.lost_init_failures = 0;
        self.reported_init_stop = false;
    }

    /// Rule I1: whether `init` has failed so often on a node that the node starts no new workers.
    pub(super) fn is_hopeless(&self, node: &JobNode) -> bool {
        node.standing.init_failures >= NodePolicy::init_failures_allowed(node.workers)
    }

    /// Whether `init` keeps failing on all nodes. Those that have ended their workers start none again.
    fn is_init_hopeless(&self) -> bool {
        let has_ended = |node: &JobNode| node.standing.is_ending && node.is_empty();
        let mut open = self.nodes.values().filter(|node| !has_ended(node)).peekable();
        open.peek().is_some() && open.all(|node| self.is_hopeless(node))
    }

    /// The number of consecutive failures of `init`, summed over all nodes that ever joined.
    fn init_failures(&self) -> u32 {
        let failures = self.nodes.values().map(|node| node.standing.init_failures);
        failures.fold(self.lost_init_failures, u32::saturating_add)
    }

    fn has_good_worker(&self) -> bool {
        self.nodes.values().any(|node| node.standing.has_good)
    }

    /// I1 and I2. The job continues as long as there is a worker whose `init` succeeded. `has_ticked`: whether the
    /// messages that have arrived are handled.
    pub(super) fn check_init_rules(&mut self, has_ticked: bool) {
        let failures = self.init_failures();
        if failures == 0 || self.ending.is_some() {
            self.hopeless_since = None;
            return;
        }
        let is_hopeless = self.is_init_hopeless();
        if self.has_good_worker() {
            self.hopeless_since = None;
            if is_hopeless && !self.reported_init_stop {
                self.reported_init_stop = true;
                self.notice(format!(
                    "init failed {failures} times in a row: no new workers are started, and \
                     the job continues with the workers that it has"
                ));
            }
            return;
        }
        let is_old = self.now > RetryPolicy::INIT_FAILURE_AGE;
        let reason = format!(
            "init failed {failures} times in a row, on every worker that was started: {}",
            self.init_failure.as_ref().map_or("", |first| first.failure.message.as_str())
        );
        if (is_hopeless && self.no_node_saves_it(has_ticked, &reason))
            || (is_old && self.init_fails_too_often_when_old())
        {
            return self.fail(EndedBy::InitFailures, reason);
        }
        if !is_hopeless {
            self.hopeless_since = None;
        }
    }

    /// I1: whether the job has waited long enough for a node on which `init` may succeed.
    fn no_node_saves_it(&mut self, has_ticked: bool, reason: &str) -> bool {
        if self.policy.node_count.is_none() {
            return true;
        }
        let Some(since) = self.hopeless_since else {
            self.hopeless_since = Some(self.now);
            let wait = RetryPolicy::HOPELESS_WAIT.as_secs();
            self.notice(format!("{reason}. The job fails if no other node joins within {wait} s"));
            return false;
        };
        has_ticked && self.now >= since.saturating_add(RetryPolicy::HOPELESS_WAIT)
    }

    /// I2 counts the smaller number of the nodes that the job asks for and the nodes that ever joined.
    fn init_fails_too_often_when_old(&self) -> bool {
        let nodes = self.joined.min(self.policy.node_count.unwrap_or(1)).max(1);
        self.init_failures() > self.policy.init_failures_when_old().saturating_mul(nodes)
    }

    /// The time at which the job fails because it becomes too old for its failures of `init` (rule I2), or because no
    /// other node has joined (rule I1). `None` if the job does not fail for these reasons without a further failure of
    /// `init`.
    pub(super) fn init_rules_deadline(&self) -> Option<Duration> {
        let hopeless_since = self.hopeless_since.filter(|_| self.ending.is_none());
        let waits_until = hopeless_since.map(|at| at.saturating_add(RetryPolicy::HOPELESS_WAIT));
        let due = self.ending.is_none()
            && self.now <= RetryPolicy::INIT_FAILURE_AGE
            && self.init_fails_too_often_when_old()
            && !self.has_good_worker();
        let too_old = due.then_some(RetryPolicy::INIT_FAILURE_AGE + Duration::from_millis(1));
        waits_until.into_iter().chain(too_old).min()
    }
}
