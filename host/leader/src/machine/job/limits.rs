//! Limits on what the leader spends on one job: mini-batches, texts about failures, and time (`limits` in a
//! job file). They never cut the journal or the output. A job that exceeds the limit of mini-batches or of
//! time fails, and keeps what it has committed.

use super::JobMachine;
use crate::model::{AttemptReport, EndedBy, count};
use std::time::Duration;

/// The length in bytes of a shortened message.
const SHORT: usize = 200;

impl JobMachine {
    /// Called whenever more of the plan has arrived.
    pub(super) fn check_count(&mut self) {
        let most = self.policy.limits.mini_batches;
        if self.planned > most && self.ending.is_none() {
            self.fail(
                EndedBy::MiniBatchLimit,
                format!(
                    "the job has more than {} mini-batches, which limits.mini_batches does not allow: \
                     make mini-batches larger (mini_batch_size), or raise it where the operator's \
                     policy allows that",
                    count(most)
                ),
            );
        }
    }

    /// The time at which the job reaches `limits.job_time`. `None` while it waits for its turn.
    pub(super) fn job_deadline(&self) -> Option<Duration> {
        let watched = self.ending.is_none() && self.waits_since.is_none();
        let longest = self.policy.limits.job_time.filter(|_| watched)?;
        Some(longest.saturating_add(self.waited))
    }

    pub(super) fn end_in_time(&mut self) {
        let limit = self.policy.limits.job_time.unwrap_or_default().as_secs_f64();
        self.fail(
            EndedBy::JobTime,
            format!(
                "the job has lasted for {limit} s, as long as limits.job_time allows; committed \
                 results are kept, and a resumed job continues from there"
            ),
        );
    }

    /// Leaves the first failures unchanged, and shortens the texts of later ones. All are counted.
    pub(super) fn shorten(&mut self, report: &mut AttemptReport) {
        let fails = u64::from(report.outcome.is_err()) + report.failed_items.len() as u64;
        let before = self.failures_reported;
        self.failures_reported = before.saturating_add(fails);
        let most = self.policy.limits.failures;
        if self.failures_reported <= most {
            return;
        }
        if let Err(failure) = &mut report.outcome {
            failure.detail.clear();
            shorten(&mut failure.message);
        }
        report.failed_items.iter_mut().for_each(|item| shorten(&mut item.reason));
        if before <= most {
            self.notice(format!(
                "more than {} failures (limits.failures): from here on each is shortened, and all are \
                 counted",
                count(most)
            ));
        }
    }
}

fn shorten(text: &mut String) {
    let end = text.floor_char_boundary(SHORT);
    if end < text.len() {
        text.truncate(end);
        text.push('…');
    }
}
