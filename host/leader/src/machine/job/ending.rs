//! How a job ends: completed, failed or cancelled.

use super::node::JobNode;
use super::types::JobEnding;
use super::{JobAction, JobMachine};
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{EndedBy, JobResult, JobStatus, OutputAction};
use crate::protocol::{Order, WorkersEnd};

impl JobMachine {
    /// Fails the job. Running mini-batches are killed, and what is committed stays.
    pub(super) fn fail(&mut self, by: EndedBy, reason: String) {
        self.end(JobStatus::Failed, by, reason);
        self.order_end(WorkersEnd::AtOnce);
    }

    pub(super) fn on_commit_failed(&mut self, text: String) {
        self.committing.clear();
        // A job that was about to complete has failed if that cannot be recorded. An earlier reason for its
        // end stays.
        self.ending.take_if(|ending| ending.status == JobStatus::Completed);
        self.fail(EndedBy::Commit, text);
    }

    pub(super) fn on_cancel(&mut self, reason: String, at_once: bool) {
        self.end(JobStatus::Cancelled, EndedBy::Cancelled, reason);
        self.order_end(if at_once { WorkersEnd::AtOnce } else { WorkersEnd::Orderly });
    }

    /// Decides the job's end, once. From here on, the job only winds down.
    fn end(&mut self, status: JobStatus, by: EndedBy, reason: String) {
        if self.ending.is_some() {
            return;
        }
        self.queue.clear();
        // From here on, writing the results has its full time (see `progress_deadline`).
        self.progressed();
        self.emit(EventKind::WindingDown { reason: reason.clone() });
        let kill_at = Some(self.now + RetryPolicy::CANCEL_GRACE);
        self.ending = Some(JobEnding { status, by: Some(by), reason, kill_at });
    }

    /// Ends the job once there is nothing left to do or to wait for.
    pub(super) fn check_end(&mut self) {
        let busy =
            !self.queue.is_empty() || !self.committing.is_empty() || !self.granted.is_empty();
        if self.ending.is_none() {
            if busy || !self.plan_finished || self.lacks_closer() {
                return self.retire();
            }
            self.all_done();
        }
        if self.nodes.values().all(JobNode::has_ended) && self.committing.is_empty() {
            self.finish();
        }
    }

    /// Asks idle workers to end while the last results are being written. If any of these results have files,
    /// it does not, because they may be rejected and would run again. If other results are rejected, a new
    /// worker is started for them.
    fn retire(&mut self) {
        let may_be_refused = || self.committing.values().any(|ended| ended.report.has_files);
        if !self.awaits_commits_only() || may_be_refused() {
            return;
        }
        let idle = self.nodes.iter().filter(|(_, node)| node.standing.idle > 0);
        for node in idle.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.order(node, Order::Retire);
        }
    }

    /// Whether all mini-batches have ended, but no worker is left that could end normally. Then the files
    /// that `init` and `shutdown` may make would be lost, so a new worker is started for them.
    pub(super) fn lacks_closer(&self) -> bool {
        let done = self.plan_finished
            && self.ending.is_none()
            && self.queue.is_empty()
            && self.committing.is_empty()
            && self.succeeded + self.failed > 0;
        done && !self.closed && !self.writes_nothing() && !self.is_one_past_init()
    }

    /// Ends a job whose mini-batches have all ended within the thresholds.
    fn all_done(&mut self) {
        let (status, by, reason) = if self.writes_nothing() {
            let reason = match (self.succeeded + self.failed, &self.found_nothing) {
                (0, Some(notice)) => {
                    format!("the inputs hold no items, so there is nothing to write: {notice}")
                }
                (0, None) => {
                    "the inputs hold no items, so there is nothing to write; sandmill plan \
                    says what it finds in them"
                        .to_owned()
                }
                _ => "no item succeeded, so there is nothing to write".to_owned(),
            };
            (JobStatus::Failed, Some(EndedBy::NothingSucceeded), reason)
        } else {
            (JobStatus::Completed, None, String::new())
        };
        // Later than each worker's own deadline for `shutdown`, so that the error names the slow worker.
        let patience = self.policy.run_timeout + RetryPolicy::CANCEL_GRACE;
        let kill_at = Some(self.now.saturating_add(patience));
        self.ending = Some(JobEnding { status, by, reason, kill_at });
        self.order_end(WorkersEnd::Done);
    }

    /// W10: rows are wanted, but no item succeeded, or there were no items. Void mini-batches have no items.
    fn writes_nothing(&self) -> bool {
        self.policy.output_action == OutputAction::AppendRow
            && self.items.succeeded == 0
            && (self.items.total > 0 || self.succeeded == 0)
    }

    fn finish(&mut self) {
        let Some(ending) = self.ending.take() else { return };
        self.finished = true;
        self.report_null_numbers();
        self.report_unknown_keys();
        // Report the failure that explains the job's end.
        let attempt = self.first_failure.take();
        let init = self.init_failure.take();
        let first_failure = match ending.by {
            Some(EndedBy::InitFailures | EndedBy::StuckInInit) => init.or(attempt),
            _ => attempt.or(init.filter(|_| ending.by.is_some())),
        };
        let result = JobResult {
            status: ending.status,
            reason: ending.reason,
            first_failure,
            ended_by: ending.by,
            mini_batches: self.planned,
            succeeded_mini_batches: self.succeeded,
            failed_mini_batches: self.failed,
            short_mini_batches: self.short,
            restored_mini_batches: self.restored,
            late_attempts: self.late,
            items: self.items,
            rows: self.rows,
            seconds: self.now.as_secs_f64(),
            processor_seconds: 0.0,
            bytes_read: None,
            peak_memory: None,
            inference: self.inference,
            os_sandbox: Default::default(),
            runtime: None,
        };
        self.act(JobAction::Finish(Box::new(result)));
    }
}
