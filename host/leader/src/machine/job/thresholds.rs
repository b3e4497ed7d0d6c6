//! How many failures a job tolerates before it fails (docs/parallel-run-step.md C9 to C12).

use super::JobMachine;
use crate::model::{EndedBy, ErrorThreshold, count, counted};

impl JobMachine {
    /// Fails the job if any threshold is exceeded (rule C12). Called with every decision, so also at the end.
    pub(super) fn check_thresholds(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let exceeded = self.items_exceeded().or_else(|| self.count_exceeded());
        if let Some((by, reason)) = exceeded.or_else(|| self.percent_exceeded()) {
            let restored_note = if self.restored > 0 {
                "; what failed in earlier runs of this job also counts"
            } else {
                ""
            };
            self.fail(by, reason + restored_note);
        }
    }

    /// Whether a threshold will be exceeded once all pending results are written. If so, no
    /// mini-batch begins until then. The job does not fail yet, because a pending result may still
    /// be rejected and retried.
    pub(super) fn commits_would_end_it(&self) -> bool {
        if self.unwritten_failures == 0 || self.ending.is_some() {
            return false;
        }
        let items = self.items.failed;
        let mini_batches = self.failed_mini_batches();
        limit_exceeded(self.policy.error_threshold, items + self.unwritten_failures).is_some()
            || limit_exceeded(self.policy.allowed_failed_count, mini_batches + self.unwritten_short)
                .is_some()
    }

    /// The number of mini-batches that failed for good, or that returned fewer rows than items (W4). A
    /// mini-batch that will be retried does not count, because it may still succeed.
    fn failed_mini_batches(&self) -> u64 {
        self.failed + self.short
    }

    /// Checks rule C9.
    fn items_exceeded(&self) -> Option<(EndedBy, String)> {
        let limit = limit_exceeded(self.policy.error_threshold, self.items.failed)?;
        let reason = format!(
            "{} failed, more than error_threshold allows ({limit}); to continue despite failures, \
             set error_threshold to the number to tolerate, or to -1",
            counted(self.items.failed, "item")
        );
        Some((EndedBy::ErrorThreshold, reason))
    }

    /// Checks rule C10.
    fn count_exceeded(&self) -> Option<(EndedBy, String)> {
        let failed = self.failed_mini_batches();
        let limit = limit_exceeded(self.policy.allowed_failed_count, failed)?;
        let reason = format!(
            "{} failed{}, more than allowed_failed_count allows ({limit}); to continue despite \
             failures, set allowed_failed_count to the number to tolerate, or to -1",
            counted(failed, "mini-batch"),
            self.short_note()
        );
        Some((EndedBy::AllowedFailedCount, reason))
    }

    /// Checks rule C11, once the plan is finished: before that, the total is unknown. But if no failure is
    /// allowed, the first failure decides.
    fn percent_exceeded(&self) -> Option<(EndedBy, String)> {
        let limit = self.policy.allowed_failed_percent;
        let failed = self.failed_mini_batches();
        let is_known = self.plan_finished || limit.exceeded_by(failed, u64::MAX);
        if !is_known || !limit.exceeded_by(failed, self.planned) {
            return None;
        }
        let so_far = if self.plan_finished { "" } else { " so far" };
        let reason = format!(
            "{} of {}{so_far} failed{}, a larger share than allowed_failed_percent allows ({limit} \
             %); to continue despite failures, set allowed_failed_percent to the share to \
             tolerate, or to 100",
            count(failed),
            counted(self.planned, "mini-batch"),
            self.short_note()
        );
        Some((EndedBy::AllowedFailedPercent, reason))
    }

    fn short_note(&self) -> String {
        match self.short {
            0 => String::new(),
            short => format!(" ({short} by returning fewer rows than items)"),
        }
    }
}

fn limit_exceeded(threshold: ErrorThreshold, count: u64) -> Option<u64> {
    match threshold {
        ErrorThreshold::AtMost(limit) if threshold.exceeded_by(count) => Some(limit),
        _ => None,
    }
}
