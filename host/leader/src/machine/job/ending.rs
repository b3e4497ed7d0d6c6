//! How a job ends: completed, failed or cancelled.

use super::node::{JobNode, REPEAT_AFTER};
use super::types::JobEnding;
use super::{JobAction, JobMachine};
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{EndedBy, JobResult, JobStatus, OutputAction};
use crate::protocol::{Order, WorkersEnd};

impl JobMachine {
    /// Fails the job. Kills the workers, and keeps what is committed.
    pub(super) fn fail(&mut self, by: EndedBy, reason: String) {
        self.end(JobStatus::Failed, by, reason);
        self.order_end(WorkersEnd::AtOnce);
    }

    pub(super) fn on_commit_failed(&mut self, by: EndedBy, text: String) {
        self.committing.clear();
        self.commits_failed = true;
        // If the job was about to complete, it now fails, because its results cannot be recorded. If it was
        // failing or cancelled, the first reason stays.
        self.ending.take_if(|ending| ending.status == JobStatus::Completed);
        self.fail(by, text);
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

    /// Ends the job once no mini-batch is waiting, running or being committed.
    pub(super) fn check_end(&mut self) {
        let has_work =
            !self.queue.is_empty() || !self.committing.is_empty() || !self.granted.is_empty();
        if self.ending.is_none() {
            if has_work || !self.plan_finished || self.needs_worker_to_close() {
                return self.retire();
            }
            self.end_by_plan();
        }
        if self.nodes.values().all(JobNode::has_ended) && self.committing.is_empty() {
            self.report_end();
        }
    }

    /// Asks idle workers to end while the last results are being written. If any of these results
    /// has files, the workers stay: the committer may reject files, and then the mini-batch runs
    /// again. If the committer rejects a result without files, a new worker is started.
    fn retire(&mut self) {
        let may_be_rejected = || self.committing.values().any(|ended| ended.report.has_files);
        if !self.awaits_commits_only() || may_be_rejected() {
            return;
        }
        let now = self.now;
        let mut idle = Vec::new();
        for (id, node) in &mut self.nodes {
            let was_asked = node.retired.is_some_and(|at| now < at + REPEAT_AFTER);
            if node.standing.idle > 0 && !was_asked {
                node.retired = Some(now);
                idle.push(*id);
            }
        }
        for node in idle {
            self.order(node, Order::Retire);
        }
    }

    /// Whether all mini-batches have ended, but no worker has run `shutdown` or can run it. The files that
    /// `init` and `shutdown` may make would be lost, so a new worker is started to make them.
    pub(super) fn needs_worker_to_close(&self) -> bool {
        let has_finished = self.plan_finished
            && self.ending.is_none()
            && self.queue.is_empty()
            && self.committing.is_empty()
            && self.succeeded + self.failed > 0;
        has_finished
            && !self.shutdown_requested
            && !self.writes_nothing()
            && !self.is_one_past_init()
    }

    /// Ends a job whose mini-batches have all ended, if no threshold is exceeded.
    fn end_by_plan(&mut self) {
        let (status, by, reason) = if self.writes_nothing() {
            let reason = match (self.succeeded + self.failed, &self.found_nothing) {
                (0, Some(notice)) => {
                    format!("the inputs hold no items, so there is nothing to write: {notice}")
                }
                (0, None) => {
                    "the inputs hold no items, so there is nothing to write; sandmill plan \
                    shows what it finds in the inputs"
                        .to_owned()
                }
                _ => "no item succeeded, so there is nothing to write".to_owned(),
            };
            (JobStatus::Failed, Some(EndedBy::NothingSucceeded), reason)
        } else {
            (JobStatus::Completed, None, String::new())
        };
        // This is later than each worker's deadline for `shutdown`, so that the error names the slow worker.
        let kill_after = self.policy.run_timeout + RetryPolicy::CANCEL_GRACE;
        let kill_at = Some(self.now.saturating_add(kill_after));
        self.ending = Some(JobEnding { status, by, reason, kill_at });
        self.order_end(WorkersEnd::Done);
    }

    /// Rule W10 in docs/parallel-run-step.md: whether the job should write rows, but no item succeeded, or
    /// there were no items. The mini-batches of a job without inputs have no items: in such a job, one
    /// successful mini-batch is enough.
    fn writes_nothing(&self) -> bool {
        self.policy.output_action == OutputAction::AppendRow
            && self.items.succeeded == 0
            && (self.items.total > 0 || self.succeeded == 0)
    }

    fn report_end(&mut self) {
        self.issue_rest();
        let Some(ending) = self.ending.take() else { return };
        self.finished = true;
        self.report_null_numbers();
        self.report_unknown_keys();
        // Choose the failure that best explains the job's end.
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
            late_attempts: self.late_results,
            items: self.items,
            rows: self.rows,
            seconds: self.now.as_secs_f64(),
            processor_seconds: 0.0,
            bytes_read: None,
            peak_memory: None,
            inference: self.inference,
            os_sandbox: Default::default(),
            runtime: None,
            mixed_backends: std::mem::take(&mut self.mixed_backends).into_iter().collect(),
            receipts: None,
        };
        self.act(JobAction::Finish(Box::new(result)));
    }
}
