//! What the progress bar and the overview count.

use super::words::{count, counted, rate, seconds};
use crate::event::EventKind;
use crate::model::ItemCounts;
use std::collections::VecDeque;

/// How a job stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Mini-batches known.
    pub(super) planned: u64,
    /// Whether these are all.
    pub(super) planning_finished: bool,
    /// Mini-batches that ended, well or not.
    pub(super) done: u64,
    /// Mini-batches that failed for good.
    pub(super) failed: u64,
    /// Items of the mini-batches that ended.
    pub(super) items: ItemCounts,
    /// Workers that are alive.
    pub(super) workers: u64,
}

impl Counters {
    pub(super) fn update(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Planned { mini_batches, finished, .. } => {
                self.planned = *mini_batches;
                self.planning_finished = *finished;
            }
            EventKind::AttemptFinished { report, will_retry, .. } if !will_retry => {
                self.done += 1;
                self.failed += u64::from(report.outcome.is_err());
                self.items += report.items;
            }
            EventKind::WorkerStarted { .. } => self.workers += 1,
            EventKind::WorkerExited { .. } => self.workers = self.workers.saturating_sub(1),
            _ => {}
        }
    }

    /// `120/180 mini-batches, 1,200 items, 0 failed, 600/s, 0.1 s left`.
    pub(super) fn line(&self, speed: &Speed) -> String {
        let known = count(self.planned.max(self.done));
        let more = if self.planning_finished { "" } else { "+" };
        let mut line = format!(
            "{}/{known}{more} mini-batches, {}, {} failed",
            count(self.done),
            counted(self.items.total, "item"),
            count(self.items.failed),
        );
        if self.done > 0 {
            line.push_str(&format!(", {}/s", rate(speed.items)));
        }
        let left = self.planned.saturating_sub(self.done);
        if !self.planning_finished {
            line.push_str(", planning...");
        } else if left > 0 && speed.mini_batches > 0.0 {
            line.push_str(&format!(", {} left", seconds(left as f64 / speed.mini_batches)));
        }
        line
    }
}

/// How fast things go, over the last half minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Speed {
    /// Items a second.
    pub(super) items: f64,
    /// Mini-batches a second.
    pub(super) mini_batches: f64,
    /// Seconds, items and mini-batches; at most one a second.
    samples: VecDeque<(f64, u64, u64)>,
}

impl Speed {
    const WINDOW: f64 = 30.0;

    /// Takes a look at the counters, `now` seconds after the start.
    pub(super) fn sample(&mut self, now: f64, counters: &Counters) {
        let (items, done) = (counters.items.total, counters.done);
        let mut since = self.samples.front().copied().unwrap_or_default();
        if done == since.2 {
            // Nothing in the window: the average of the whole job says more than a zero.
            since = (0.0, 0, 0);
        }
        let span = now - since.0;
        if span > 0.0 {
            self.items = items.saturating_sub(since.1) as f64 / span;
            self.mini_batches = done.saturating_sub(since.2) as f64 / span;
        }
        if self.samples.back().is_none_or(|last| now - last.0 >= 1.0) {
            self.samples.push_back((now, items, done));
        }
        while self.samples.front().is_some_and(|first| now - first.0 > Self::WINDOW) {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn counts_a_job() {
        let (mut counters, mut speed) = (Counters::default(), Speed::default());
        let mut lines = vec![counters.line(&speed)];
        for (index, event) in samples::job().iter().enumerate() {
            counters.update(&event.kind);
            speed.sample((index + 1) as f64 * 0.5, &counters);
            lines.push(counters.line(&speed));
        }
        lines.dedup();
        insta::assert_snapshot!(lines.join("\n"), @r"
        0/0+ mini-batches, 0 items, 0 failed, planning...
        0/3+ mini-batches, 0 items, 0 failed, planning...
        1/3+ mini-batches, 10 items, 0 failed, 3.3/s, planning...
        2/3+ mini-batches, 20 items, 1 failed, 5.7/s, planning...
        2/180 mini-batches, 20 items, 1 failed, 5.0/s, 5 min 56 s left
        2/180 mini-batches, 20 items, 1 failed, 4.4/s, 6 min 41 s left
        2/180 mini-batches, 20 items, 1 failed, 4.0/s, 7 min 25 s left
        2/180 mini-batches, 20 items, 1 failed, 3.6/s, 8 min 10 s left
        3/180 mini-batches, 30 items, 11 failed, 5.0/s, 5 min 54 s left
        3/180 mini-batches, 30 items, 11 failed, 4.6/s, 6 min 24 s left
        3/180 mini-batches, 30 items, 11 failed, 4.3/s, 6 min 53 s left
        ");
    }
}
