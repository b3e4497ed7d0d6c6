//! The counters of the progress bar, the overview and the metrics.

use super::phrases::{count, counted, rate, seconds};
use crate::event::EventKind;
use crate::model::{AttemptReport, ItemCounts, MiniBatchId, to_f64, whole};
use std::collections::{HashMap, VecDeque};

/// The state of a job. The counts of a resumed job continue those of its earlier runs.
#[derive(Clone, Debug, Default)]
pub(super) struct JobCounters {
    /// The mini-batches planned so far.
    pub(super) planned: u64,
    /// The number of their items.
    pub(super) planned_items: u64,
    /// The share of the inputs that is planned, in thousandths; `None` if it is unknown.
    plan_share: Option<u16>,
    pub(super) planning_finished: bool,
    /// The mini-batches that ended, with success or failure.
    pub(super) done: u64,
    /// The mini-batches that failed for good.
    pub(super) failed: u64,
    /// The mini-batches that succeeded in this run with fewer rows than items (rule W4 in
    /// docs/parallel-run-step.md).
    pub(super) short: u64,
    /// The items of the mini-batches that ended.
    pub(super) items: ItemCounts,
    /// The rows committed.
    pub(super) rows: u64,
    /// The failed attempts in this run after which there was, or will be, another attempt.
    pub(super) retries: u64,
    /// The results in this run that came after Sandmill had stopped waiting for them, and were discarded.
    pub(super) late: u64,
    /// The live workers.
    pub(super) workers: u64,
    /// How busy the GPUs are, in percent; `None` if that is unknown.
    pub(super) gpu_percent: Option<u32>,
    /// The number of mini-batches that ended in earlier runs, and the number of their items.
    restored: (u64, u64),
    /// The failed mini-batches that wait for a retry, and their failed items. They are shown as failed until
    /// they succeed (C10).
    waiting: HashMap<MiniBatchId, u64>,
    waiting_items: u64,
}

impl JobCounters {
    pub(super) fn update(&mut self, kind: &EventKind) {
        match kind {
            EventKind::JobStarted { resumed: Some(resumed), .. } => {
                self.done = resumed.succeeded + resumed.failed;
                self.failed = resumed.failed;
                self.items = resumed.items;
                self.rows = resumed.rows;
                self.restored = (self.done, self.items.total);
            }
            EventKind::Planned { mini_batches, items, finished, share } => {
                self.plan_share = *share;
                self.planned = *mini_batches;
                self.planned_items = *items;
                self.planning_finished = *finished;
            }
            EventKind::AttemptFinished { report, will_retry, .. } => {
                self.count_attempt(report, *will_retry);
            }
            EventKind::GpuUse { percent } => self.gpu_percent = Some(*percent),
            EventKind::AttemptDiscarded { .. } => self.late += 1,
            EventKind::WorkerStarted { .. } => self.workers += 1,
            EventKind::WorkerExited { .. } => self.workers = self.workers.saturating_sub(1),
            EventKind::JobFinished { result } => {
                self.gpu_percent = None;
                // The result has the final counts: attempts that the end of the job cut off do not count.
                self.waiting = HashMap::new();
                self.waiting_items = 0;
                self.planned = result.mini_batches;
                self.done = result.succeeded_mini_batches + result.failed_mini_batches;
                self.failed = result.failed_mini_batches;
                self.short = result.short_mini_batches.max(self.short);
                self.items = result.items;
                self.rows = result.rows;
            }
            _ => {}
        }
    }

    fn count_attempt(&mut self, report: &AttemptReport, will_retry: bool) {
        if !self.waiting.is_empty() {
            self.waiting_items -= self.waiting.remove(&report.id).unwrap_or_default();
        }
        if will_retry {
            self.retries += 1;
            self.waiting.insert(report.id, report.items.failed);
            self.waiting_items += report.items.failed;
            return;
        }
        self.done += 1;
        self.items += report.items;
        match &report.outcome {
            Ok(segment) => {
                self.rows += segment.rows;
                self.short += u64::from(report.is_short);
            }
            Err(_) => self.failed += 1,
        }
    }

    /// The mini-batches that succeeded.
    pub(super) fn succeeded(&self) -> u64 {
        self.done - self.failed.min(self.done)
    }

    /// The mini-batches that wait for a retry.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The mini-batches that failed, including those that will be retried.
    pub(super) fn failed_now(&self) -> u64 {
        self.failed + self.waiting()
    }

    /// The items that failed, including those whose mini-batch will be retried.
    pub(super) fn failed_items_now(&self) -> u64 {
        self.items.failed + self.waiting_items
    }

    /// The seconds until all is done; `None` if that cannot be estimated.
    pub(super) fn seconds_left(&self, speed: &Speed) -> Option<f64> {
        let left = self.planned.saturating_sub(self.done);
        let known = self.planning_finished && (left == 0 || speed.mini_batches > 0.0);
        known.then(|| if left == 0 { 0.0 } else { to_f64(left) / speed.mini_batches })
    }

    /// The mini-batches that ended in earlier runs.
    pub(super) fn restored_mini_batches(&self) -> u64 {
        self.restored.0
    }

    /// The number of items, estimated while planning continues; `None` if that cannot be estimated.
    pub(super) fn expected_items(&self) -> Option<u64> {
        let expected = self.estimate_total(self.planned_items)?;
        Some(expected.max(self.items.total)).filter(|&items| items > 0)
    }

    /// Estimates what `planned` will be when planning ends.
    fn estimate_total(&self, planned: u64) -> Option<u64> {
        match self.plan_share {
            _ if self.planning_finished => Some(planned),
            // While less than 0.5 % is planned, the estimate would be too rough.
            Some(share @ 5..) => Some(whole(to_f64(planned) * 1000.0 / f64::from(share))),
            _ => None,
        }
    }

    /// The fraction of the job that is done, from 0 to 1; `None` if that cannot be estimated.
    pub(super) fn fraction(&self) -> Option<f64> {
        let (done, all) = match self.expected_items() {
            Some(all) => (self.items.total, all),
            None => (self.done, self.estimate_total(self.planned).filter(|&all| all > 0)?),
        };
        Some((to_f64(done) / to_f64(all)).clamp(0.0, 1.0))
    }

    /// The seconds until all is done, estimated by mini-batches, or else by items; `None` if that cannot be
    /// estimated.
    pub(super) fn estimated_left(&self, speed: &Speed) -> Option<f64> {
        self.seconds_left(speed).or_else(|| {
            let left = self.expected_items()?.saturating_sub(self.items.total);
            (speed.items > 0.0).then(|| to_f64(left) / speed.items)
        })
    }

    /// `120/180 mini-batches, 1,200 items, 0 failed, 600/s, 0.1 s left`.
    pub(super) fn line(&self, speed: &Speed) -> String {
        let known = count(self.planned.max(self.done));
        let more = if self.planning_finished { "" } else { "+" };
        let mut line = format!(
            "{}/{known}{more} mini-batches, {}, {} failed",
            count(self.done),
            counted(self.items.total, "item"),
            count(self.failed_items_now()),
        );
        if self.done > self.restored.0 {
            line.push_str(&format!(", {}/s", rate(speed.items)));
        }
        if let Some(percent) = self.gpu_percent {
            line.push_str(&format!(", GPUs {percent} % busy"));
        }
        if !self.planning_finished {
            line.push_str(", planning...");
        } else if let Some(left) = self.seconds_left(speed)
            && left > 0.0
        {
            line.push_str(&format!(", {} left", seconds(left)));
        }
        line
    }
}

/// The speed over the last half minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Speed {
    /// Items per second.
    pub(super) items: f64,
    /// Mini-batches per second.
    pub(super) mini_batches: f64,
    /// Seconds since the start, items and mini-batches; at most one sample per second.
    samples: VecDeque<(f64, u64, u64)>,
}

impl Speed {
    const WINDOW_SECONDS: f64 = 30.0;

    /// Samples the counters, `now` seconds after the start.
    pub(super) fn sample(&mut self, now: f64, counters: &JobCounters) {
        // The work of earlier runs says nothing about the speed of this one.
        let done = counters.done.saturating_sub(counters.restored.0);
        let items = counters.items.total.saturating_sub(counters.restored.1);
        let mut since = self.samples.front().copied().unwrap_or_default();
        if done == since.2 {
            // Nothing ended in the window: show the average of the whole run rather than zero.
            since = (0.0, 0, 0);
        }
        let span = now - since.0;
        if span > 0.0 {
            self.items = to_f64(items.saturating_sub(since.1)) / span;
            self.mini_batches = to_f64(done.saturating_sub(since.2)) / span;
        }
        if self.samples.back().is_none_or(|last| now - last.0 >= 1.0) {
            self.samples.push_back((now, items, done));
        }
        while self.samples.front().is_some_and(|first| now - first.0 > Self::WINDOW_SECONDS) {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// The use of GPUs is shown only while the job runs.
    #[test]
    fn the_use_of_gpus_is_in_the_line() {
        let mut counters = JobCounters::default();
        let speed = Speed::default();
        assert!(!counters.line(&speed).contains("GPU"));
        counters.update(&EventKind::GpuUse { percent: 93 });
        assert!(counters.line(&speed).contains("0 failed, GPUs 93 % busy, planning"));
        counters.update(&samples::job().last().expect("the end").kind);
        assert!(!counters.line(&speed).contains("GPU"));
    }

    #[test]
    fn counts_a_job() {
        let mut counters = JobCounters::default();
        let mut speed = Speed::default();
        let mut lines = vec![counters.line(&speed)];
        for (index, event) in samples::job().iter().enumerate() {
            counters.update(&event.kind);
            speed.sample(to_f64(index as u64 + 1) * 0.5, &counters);
            lines.push(counters.line(&speed));
        }
        lines.dedup();
        insta::assert_snapshot!(lines.join("\n"), @"
        0/0+ mini-batches, 0 items, 0 failed, planning...
        0/3+ mini-batches, 0 items, 0 failed, planning...
        1/3+ mini-batches, 10 items, 0 failed, 2.9/s, planning...
        2/3+ mini-batches, 20 items, 1 failed, 5.0/s, planning...
        2/180 mini-batches, 20 items, 1 failed, 4.4/s, 6 min 41 s left
        2/180 mini-batches, 20 items, 1 failed, 4.0/s, 7 min 25 s left
        2/180 mini-batches, 20 items, 11 failed, 3.6/s, 8 min 10 s left
        2/180 mini-batches, 20 items, 11 failed, 3.3/s, 8 min 54 s left
        2/180 mini-batches, 20 items, 11 failed, 3.1/s, 9 min 39 s left
        2/180 mini-batches, 20 items, 11 failed, 2.9/s, 10 min 23 s left
        2/180 mini-batches, 20 items, 11 failed, 2.7/s, 11 min 08 s left
        3/180 mini-batches, 30 items, 11 failed, 3.8/s, 7 min 52 s left
        3/180 mini-batches, 30 items, 11 failed, 3.5/s, 8 min 21 s left
        3/180 mini-batches, 30 items, 10 failed, 3.3/s, 8 min 51 s left
        ");
    }

    /// C10: a mini-batch that will be retried counts as failed until the retry succeeds.
    #[test]
    fn a_failed_attempt_counts_until_a_retry_succeeds() {
        let mut counters = JobCounters::default();
        let shown = |counters: &JobCounters| {
            (counters.failed_now(), counters.failed_items_now(), counters.succeeded())
        };
        counters.update(&samples::failed(5, 1, samples::trap(), true));
        assert_eq!(shown(&counters), (1, 10, 0));
        counters.update(&samples::failed(5, 2, samples::trap(), true));
        assert_eq!((shown(&counters), counters.waiting()), ((1, 10, 0), 1));
        counters.update(&samples::succeeded(5, 3, Vec::new()));
        assert_eq!((shown(&counters), counters.waiting()), ((0, 0, 1), 0));
        assert_eq!((counters.retries, counters.done, counters.rows), (2, 1, 10));
        counters.update(&samples::failed(6, 3, samples::trap(), false));
        assert_eq!(shown(&counters), (1, 10, 1));
    }

    /// W4: a mini-batch that succeeded with fewer rows than items.
    #[test]
    fn short_mini_batches_are_counted() {
        let mut counters = JobCounters::default();
        counters.update(&samples::succeeded(0, 1, vec![samples::broken_item()]));
        counters.update(&samples::succeeded(1, 1, Vec::new()));
        assert_eq!((counters.short, counters.succeeded()), (1, 2));
    }

    /// W15: a resumed job continues the counts of earlier runs, but shows the speed of this run.
    #[test]
    fn a_resumed_job_continues_counting() {
        let mut counters = JobCounters::default();
        let mut speed = Speed::default();
        counters.update(&samples::resumed());
        speed.sample(1.0, &counters);
        assert_eq!(counters.line(&speed), "50/50+ mini-batches, 500 items, 10 failed, planning...");
        counters.update(&EventKind::Planned {
            mini_batches: 60,
            items: 600,
            finished: true,
            share: None,
        });
        counters.update(&samples::succeeded(50, 1, Vec::new()));
        speed.sample(2.0, &counters);
        assert_eq!(
            counters.line(&speed),
            "51/60 mini-batches, 510 items, 10 failed, 10/s, 9.0 s left"
        );
    }
}
