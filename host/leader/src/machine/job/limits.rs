//! Limits on what one job may cost the leader (`limits` in a job file): the number of mini-batches, the texts
//! about failures, and the time. The journal and the output are never shortened. A job that exceeds the limit
//! of mini-batches or of time fails, and keeps what it has committed.

use super::JobMachine;
use crate::model::{AttemptReport, EndedBy, count};
use std::time::Duration;

/// Once `limits.failures` failures were reported, the text of each further failure has at most this many
/// bytes.
const SHORTENED_BYTES: usize = 200;

impl JobMachine {
    /// Fails the job if it has too many mini-batches. Called whenever more of the plan has arrived.
    pub(super) fn check_mini_batch_limit(&mut self) {
        let limit = self.policy.limits.mini_batches;
        if self.planned > limit && self.ending.is_none() {
            self.fail(
                EndedBy::MiniBatchLimit,
                format!(
                    "the job has more than {} mini-batches, which limits.mini_batches does not allow: \
                     make mini-batches larger (mini_batch_size), or raise limits.mini_batches if the \
                     operator's policy allows it",
                    count(limit)
                ),
            );
        }
    }

    /// The time at which the job reaches `limits.job_time`. `None` if there is no such limit, or while the
    /// job waits for other jobs or is ending.
    pub(super) fn job_deadline(&self) -> Option<Duration> {
        let is_running = self.ending.is_none() && self.waits_since.is_none();
        let longest = self.policy.limits.job_time.filter(|_| is_running)?;
        Some(longest.saturating_add(self.waited))
    }

    pub(super) fn fail_for_job_time(&mut self) {
        let limit = self.policy.limits.job_time.unwrap_or_default().as_secs_f64();
        self.fail(
            EndedBy::JobTime,
            format!(
                "the job has lasted for {limit} s, as long as limits.job_time allows; committed \
                 results are kept, and a resumed job continues from there"
            ),
        );
    }

    /// Shortens the texts of a report's failures once `limits.failures` failures were reported.
    pub(super) fn shorten(&mut self, report: &mut AttemptReport) {
        let failures = u64::from(report.outcome.is_err()) + report.failed_items.len() as u64;
        let before = self.failures_reported;
        self.failures_reported = before.saturating_add(failures);
        let limit = self.policy.limits.failures;
        if self.failures_reported <= limit {
            return;
        }
        if let Err(failure) = &mut report.outcome {
            failure.detail.clear();
            shorten(&mut failure.message);
        }
        report.failed_items.iter_mut().for_each(|item| shorten(&mut item.reason));
        if before <= limit {
            self.notice(format!(
                "more than {} failures (limits.failures): from here on their texts are shortened, and all \
                 failures are counted",
                count(limit)
            ));
        }
    }
}

fn shorten(text: &mut String) {
    let end = text.floor_char_boundary(SHORTENED_BYTES);
    if end < text.len() {
        text.truncate(end);
        text.push('…');
    }
}
