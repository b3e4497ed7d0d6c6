//! Invariants that are checked after every step.

use super::world::SimulatedWorld;
use crate::model::{EndedBy, JobResult, JobStatus};
use std::collections::BTreeSet;

impl SimulatedWorld {
    /// Checks all invariants. `has_ticked`: whether the state machine has just handled a tick.
    pub(super) fn check(&self, has_ticked: bool) {
        if let Some(result) = &self.result {
            return self.check_end(result);
        }
        // Every stage has a deadline, and the state machine acts on every deadline that has expired.
        let deadline = self.machine.next_deadline().expect("something is always awaited");
        assert!(!has_ticked || deadline > self.now, "a deadline stays in the past");
        if self.winding_down || self.workers.values().any(|worker| worker.asked_to_end) {
            return;
        }
        let is_done = self.plan_reported && self.open == 0;
        let is_done = is_done && self.committer.is_empty() && self.unreported.is_empty();
        assert!(!self.cancelled || is_done, "a cancelled job winds down");
        for by in
            [EndedBy::ErrorThreshold, EndedBy::AllowedFailedCount, EndedBy::AllowedFailedPercent]
        {
            assert!(!self.is_exceeded(by), "{by:?} is exceeded, and the job continues");
        }
        self.check_workers();
    }

    fn check_workers(&self) {
        let mut held = BTreeSet::new();
        let mut live = 0;
        let mut occupied = 0;
        let mut has_idle = false;
        for worker in self.workers.values() {
            if worker.is_live() {
                live += 1;
                has_idle |= worker.ready && worker.inbox.is_empty();
                for assignment in &worker.inbox {
                    assert!(held.insert(assignment.mini_batch.id), "given to two workers");
                }
            }
            assert!(
                !worker.is_live() || !worker.awaits_decision,
                "a worker still waits for the leader's decision"
            );
            let waits_for_gpu = worker.gpu.is_some() && !worker.given_up;
            occupied += usize::from(worker.is_live() || waits_for_gpu);
        }
        let most = self.policy.workers as usize;
        assert!(live <= most, "{live} workers live");
        // There are as many live workers as wanted, or there is a reason for fewer.
        let has_reason = self.starts_left(true) <= 0 || self.now < self.paused_until;
        let missing = most.min(self.open).saturating_sub(occupied);
        assert!(
            missing <= self.gpus_awaited(missing) || has_reason,
            "{live} workers for {} mini-batches",
            self.open
        );
        let waiting =
            self.open.checked_sub(held.len()).expect("workers hold only open mini-batches");
        let pausing = self.pausing.values().filter(|until| self.now < **until).count();
        let waiting = waiting.saturating_sub(pausing);
        let idles = has_idle && waiting > 0 && !self.commits_decide();
        assert!(!idles, "a worker idles while {waiting} mini-batches wait");
    }

    /// Whether a threshold will be exceeded once all results are written.
    fn commits_decide(&self) -> bool {
        let ended = || self.committer.iter().chain(&self.unreported).map(|settled| &settled.report);
        let good = || ended().filter(|report| report.outcome.is_ok());
        let items: u64 = good().map(|report| report.items.failed).sum();
        let short = good().filter(|report| report.is_short).count() as u64;
        let failed = self.counted.failed + self.counted.short + short;
        self.policy.error_threshold.exceeded_by(self.counted.items.failed + items)
            || self.policy.allowed_failed_count.exceeded_by(failed)
    }

    /// Whether a threshold is exceeded, by the test's own count of the messages to the state
    /// machine.
    fn is_exceeded(&self, by: EndedBy) -> bool {
        let failed = self.counted.failed + self.counted.short;
        match by {
            EndedBy::ErrorThreshold => {
                self.policy.error_threshold.exceeded_by(self.counted.items.failed)
            }
            EndedBy::AllowedFailedCount => self.policy.allowed_failed_count.exceeded_by(failed),
            EndedBy::AllowedFailedPercent => {
                let planned = self.planned as u64;
                let percent = self.policy.allowed_failed_percent;
                let is_known = self.plan_reported || percent.exceeded_by(failed, u64::MAX);
                is_known && percent.exceeded_by(failed, planned)
            }
            _ => true,
        }
    }

    /// Records that the job begins to end. If the reason is a threshold, checks that it is really exceeded.
    pub(super) fn begin_to_wind_down(&mut self, reason: &str) {
        assert!(!self.winding_down, "the end is decided twice");
        self.winding_down = true;
        for (words, by) in [
            ("more than error_threshold", EndedBy::ErrorThreshold),
            ("more than allowed_failed_count", EndedBy::AllowedFailedCount),
            ("share than allowed_failed_percent", EndedBy::AllowedFailedPercent),
        ] {
            assert!(!reason.contains(words) || self.is_exceeded(by), "too early: {reason}");
        }
    }

    fn check_end(&self, result: &JobResult) {
        assert_eq!(self.machine.next_deadline(), None);
        let are_given_up = self.workers.values().all(|worker| worker.given_up);
        assert!(are_given_up, "the job ended before its workers");
        assert_eq!(result.ended_by.is_none(), result.status == JobStatus::Completed);
        assert_eq!(result.reason.is_empty(), result.status == JobStatus::Completed);
        assert_eq!(
            result.status == JobStatus::Cancelled,
            result.ended_by == Some(EndedBy::Cancelled)
        );
        assert_eq!(result.late_attempts, self.late, "late results are counted");
        if self.commits_given_up || self.committer_dead {
            return assert_ne!(result.status, JobStatus::Completed);
        }
        assert!(
            self.committer.is_empty() && self.unreported.is_empty(),
            "the job ended before its commits"
        );
        self.receipts.check_end();
        assert_eq!(result.succeeded_mini_batches, self.counted.succeeded);
        assert_eq!(result.failed_mini_batches, self.counted.failed);
        assert_eq!(result.short_mini_batches, self.counted.short);
        assert_eq!((result.items, result.rows), (self.counted.items, self.counted.rows));
        let ended = result.succeeded_mini_batches + result.failed_mini_batches;
        assert_eq!(ended, self.journal.len() as u64, "each ended mini-batch is in the journal");
        assert!(self.runs > 1 || result.restored_mini_batches == 0);
        if result.status == JobStatus::Completed {
            assert!(self.plan_reported);
            assert_eq!(self.plan.len() as u64, result.mini_batches);
            assert_eq!(ended, result.mini_batches, "every mini-batch ends exactly once");
            for by in [
                EndedBy::ErrorThreshold,
                EndedBy::AllowedFailedCount,
                EndedBy::AllowedFailedPercent,
            ] {
                assert!(!self.is_exceeded(by), "{by:?} is exceeded");
            }
        }
    }
}
