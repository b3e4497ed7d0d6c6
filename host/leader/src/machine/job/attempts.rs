//! Attempts: how they end, retries, commits, and what counts as failed.

use super::granted::GrantedMiniBatch;
use super::performer::{AttemptCost, AttemptWorker, LostAttempt};
use super::queue::PendingMiniBatch;
use super::types::{Committing, SettledMiniBatch};
use super::{JobAction, JobMachine};
use crate::event::EventKind;
use crate::machine::RetryPolicy;
use crate::model::{
    AttemptReport, CallStats, EndedBy, FailedItem, Failure, FailureKind, FirstFailure, ItemCounts,
    ItemLocation, MiniBatch, MiniBatchId, MiniBatchWork, NotBillable, ReceiptEnd, WorkerId,
    counted,
};
use crate::protocol::Assignment;
use std::time::Duration;

impl JobMachine {
    /// The assignment that a worker receives for an attempt.
    pub(super) fn assignment(&self, pending: &PendingMiniBatch) -> Assignment {
        let mini_batch = pending.mini_batch.clone();
        let attempt = pending.attempt;
        let is_last = attempt >= self.policy.max_try || is_unreadable(&mini_batch);
        // The connection to another machine adds the objects.
        Assignment { mini_batch, attempt, is_last, objects: Vec::new() }
    }

    /// Handles an attempt whose worker is gone and cannot report on it.
    pub(super) fn attempt_lost(
        &mut self,
        by: AttemptWorker,
        granted: GrantedMiniBatch,
        LostAttempt { run, process_seconds, cost }: LostAttempt,
        failure: Failure,
    ) {
        let pending = &granted.pending;
        let mini_batch = &pending.mini_batch;
        let items = ItemCounts::from_returned(mini_batch.planned_items(), 0);
        let report = AttemptReport {
            elapsed_seconds: cost.ended.saturating_sub(cost.started).as_secs_f64(),
            process_seconds,
            run: CallStats { seconds: run.map_or(0.0, |run| run.as_secs_f64()), fuel: None },
            ..AttemptReport::new(
                mini_batch.id,
                pending.attempt,
                mini_batch.stamp,
                items,
                Err(failure),
            )
        };
        self.attempt_ended(by, granted, cost, Box::new(report));
    }

    /// Handles the end of an attempt. If its twin continues, a failure does not count, and a success ends the twin.
    pub(super) fn attempt_ended(
        &mut self,
        by: AttemptWorker,
        mut granted: GrantedMiniBatch,
        cost: AttemptCost,
        report: Box<AttemptReport>,
    ) {
        if report.outcome.is_err() && !granted.is_over() {
            self.progressed();
            let end = ReceiptEnd::of(&report.outcome);
            let not_billable = end.not_billable.or(Some(NotBillable::Duplicate));
            let end = ReceiptEnd { not_billable, ..end };
            self.issue(by, (report.id, report.attempt), &cost, end);
            self.emit_attempt(by.worker, &granted.pending, cost.started, report, true);
            granted.note_failure();
            return self.keep_granted(granted);
        }
        if let Some(twin) = granted.remove_last() {
            self.cancel_twin(&twin, (report.id, report.attempt), by.worker);
        }
        self.settle(by, granted.pending, cost, report);
    }

    /// Decides on a mini-batch without other attempts. A success goes to the journal. A failure is retried, or goes to
    /// the journal if no retry is possible.
    fn settle(
        &mut self,
        by: AttemptWorker,
        pending: PendingMiniBatch,
        cost: AttemptCost,
        mut report: Box<AttemptReport>,
    ) {
        self.progressed();
        let attempt = (report.id, report.attempt);
        let end = ReceiptEnd::of(&report.outcome);
        if let Err(failure) = &report.outcome
            && failure.kind == FailureKind::NoSpace
        {
            self.issue(by, attempt, &cost, end);
            // The disk is full. The mini-batch does not count as failed, because a resumed job can run it
            // once there is space.
            return self.fail(EndedBy::Commit, failure.message.clone());
        }
        let retry_after = match &mut report.outcome {
            Ok(_) => None,
            Err(failure) => self.may_try_again(&pending, failure).then(|| failure.clone()),
        };
        if report.outcome.is_err() {
            self.no_pause_until = self.now + RetryPolicy::NO_PAUSE_AFTER_FAILURE;
            let will_retry = retry_after.is_some() && self.ending.is_none();
            self.emit_attempt(by.worker, &pending, cost.started, report.clone(), will_retry);
        }
        if let Some(failure) = retry_after {
            self.issue(by, attempt, &cost, end);
            // Once the job's end is decided, nothing is retried.
            if self.ending.is_none() {
                self.queue.push_back(pending.retry(by, &failure, self.turns()));
            }
            return;
        }
        if self.commits_failed {
            // The committer would never answer. A resumed job runs the mini-batch again.
            return;
        }
        let receipt = self.receipt(by, attempt, &cost, end);
        let settled = SettledMiniBatch { worker: by.worker, report: report.clone(), receipt };
        self.act(JobAction::Commit(settled));
        let id = pending.mini_batch.id;
        let failed = report.outcome.is_err();
        let items = report.items;
        self.note_first_failure(by.worker, &report);
        let is_short = report.is_short;
        self.committing.insert(id, Committing { pending, by, report, cost });
        if failed {
            self.failed += 1;
            self.items += items;
        } else {
            self.unwritten_failures += items.failed;
            self.unwritten_short += u64::from(is_short);
        }
    }

    /// Whether a further attempt may succeed. If not, although tries are left, adds the reason to the
    /// failure's message.
    fn may_try_again(&self, pending: &PendingMiniBatch, failure: &mut Failure) -> bool {
        let may_succeed_on_retry = failure.kind.may_succeed_on_retry()
            && pending.attempt < self.policy.max_try
            && pending.losses < RetryPolicy::MAX_NODE_LOSSES
            && !is_unreadable(&pending.mini_batch);
        if may_succeed_on_retry && pending.has_trapped_like(failure) {
            let before = pending.attempt - 1;
            failure.message += &format!(
                " (not tried again, because attempt {before} failed in exactly the same way)"
            );
            return false;
        }
        may_succeed_on_retry
    }

    /// Handles the committer's answer: no longer counts a successful attempt as unwritten.
    fn subtract_unwritten(&mut self, report: &AttemptReport) {
        self.unwritten_failures -= report.items.failed;
        self.unwritten_short -= u64::from(report.is_short);
    }

    pub(super) fn on_committed(&mut self, id: MiniBatchId) {
        let Some(done) = self.committing.remove(&id) else { return };
        self.progressed();
        let Ok(segment) = &done.report.outcome else { return }; // Counted when it failed.
        self.subtract_unwritten(&done.report);
        self.succeeded += 1;
        self.rows += segment.rows;
        let surplus = done.report.surplus_rows;
        self.items += done.report.items;
        self.short += u64::from(done.report.is_short); // W4.
        self.null_numbers = self.null_numbers.saturating_add(done.report.null_numbers);
        self.warn_of_surplus(id, surplus);
        self.count_unknown_keys(&done.pending.mini_batch, done.report.unknown_keys.as_ref());
        self.emit_attempt(done.by.worker, &done.pending, done.cost.started, done.report, false);
    }

    /// Handles a rejection by the committer: the attempt has failed after all.
    pub(super) fn on_rejected(&mut self, id: MiniBatchId, failure: Failure) {
        let Some(mut done) = self.committing.remove(&id) else { return };
        if done.report.outcome.is_ok() {
            self.subtract_unwritten(&done.report);
        }
        let total = done.report.items.total;
        done.report.items = ItemCounts::from_returned(total, 0);
        done.report.outcome = Err(failure);
        done.report.has_files = false;
        done.report.is_short = false;
        done.report.unknown_keys = None;
        done.report.failed_items.clear();
        self.settle(done.by, done.pending, done.cost, done.report);
    }

    fn emit_attempt(
        &mut self,
        worker: WorkerId,
        pending: &PendingMiniBatch,
        started: Duration,
        mut report: Box<AttemptReport>,
        will_retry: bool,
    ) {
        // The event may be shortened. The report in the journal is complete.
        self.shorten(&mut report);
        if let Err(failure) = &report.outcome {
            report.failed_items = match will_retry {
                true => Vec::new(),
                false => self.failed_items(&pending.mini_batch, failure.kind),
            };
        }
        self.warn_of_fallback(worker, report.inference.fell_back);
        self.inference += report.inference;
        self.emit(EventKind::AttemptFinished {
            worker: worker.to_string(),
            report,
            location: pending.mini_batch.location(&self.sources),
            started: self.timestamp(started),
            will_retry,
        });
    }

    /// The failed items of a mini-batch that failed as a whole: its files, up to the number that a report may
    /// name. For rows, also the line or row at which they begin.
    fn failed_items(&self, batch: &MiniBatch, kind: FailureKind) -> Vec<FailedItem> {
        let failed_item =
            |(index, ItemLocation { source, file, line, row }): (u32, ItemLocation<'_>)| {
                let source = self.sources.get(source as usize);
                let folder = source.map_or("", |source| source.guest.as_str());
                let reason = batch.why_unfetched(index).unwrap_or_default().to_owned();
                FailedItem { item: format!("{folder}/{file}"), line, row, reason, kind }
            };
        (0..)
            .zip(batch.item_locations())
            .take(AttemptReport::MAX_FAILED_ITEMS)
            .map(failed_item)
            .collect()
    }

    /// Notifies the user once if a model that should run on a GPU ran on the CPU. The job allows this.
    fn warn_of_fallback(&mut self, worker: WorkerId, fell_back: bool) {
        if fell_back && !self.inference.fell_back {
            self.notice(format!(
                "a model that is meant for a GPU ran on the CPU in {worker}, which has no GPU that \
                 a backend can use; the job allows that with fallback: cpu (reported once per job)"
            ));
        }
    }

    /// Rule E8 in docs/parallel-run-step.md: more rows than items are accepted, with one notice.
    fn warn_of_surplus(&mut self, id: MiniBatchId, surplus: u64) {
        if surplus > 0 && !self.warned_of_surplus {
            self.warned_of_surplus = true;
            self.emit(EventKind::Notice {
                message: format!(
                    "mini-batch {id} returned {surplus} more rows than it has items; the rows are \
                     kept, and items are never counted above their number (reported once per job)"
                ),
            });
        }
    }

    /// Reports at the job's end how many NaN and infinite numbers became null, because JSON has neither.
    pub(super) fn report_null_numbers(&mut self) {
        let (values, are) = match self.null_numbers {
            0 => return,
            1 => ("1 value".to_owned(), "is"),
            count => (format!("{count} values"), "are"),
        };
        self.notice(format!(
            "{values} of the rows {are} null in the output: JSON has no nan or infinite numbers \
             (output_format.type parquet or arrow keeps them)"
        ));
    }

    fn note_first_failure(&mut self, worker: WorkerId, report: &AttemptReport) {
        if self.first_failure.is_some() || report.items.failed == 0 && report.outcome.is_ok() {
            return;
        }
        let item = report.failed_items.first().cloned();
        let failure = match (&report.outcome, &item) {
            (Err(failure), _) => failure.clone(),
            (Ok(_), Some(item)) => Failure::new(item.kind, item.reason.clone()),
            (Ok(_), None) => {
                let ItemCounts { succeeded: rows, total, .. } = report.items;
                let rows = if rows == 0 { "no row".to_owned() } else { counted(rows, "row") };
                let message = format!(
                    "run returned {rows} for {}: an item without a row counts as failed",
                    counted(total, "item")
                );
                Failure::new(FailureKind::ShortResults, message)
            }
        };
        self.first_failure = Some(FirstFailure {
            mini_batch: Some(report.id),
            worker: Some(worker.to_string()),
            item,
            failure,
        });
    }
}

/// Whether no worker can process the mini-batch: its file could not be read while planning, or its objects
/// could not be fetched.
fn is_unreadable(batch: &MiniBatch) -> bool {
    matches!(batch.work, MiniBatchWork::Unreadable(_)) || batch.is_unfetched()
}
