//! The report of an attempt for the leader. Its length is bounded, because much of it comes from the guest.

use super::cpu::{CpuMeter, ProcessUsage};
use super::tally::AttemptTally;
use crate::model::{
    AttemptReport, CallStats, Failure, FailureKind, InferenceStats, ItemCounts, Segment, is_full,
};
use crate::output::OutputError;
use crate::protocol::Assignment;
use std::io;
use std::path::Path;
use std::time::Instant;

/// The longest reason of a failed item, in bytes. If all items have a reason of this length and long paths,
/// the report still fits into a frame.
pub(super) const MAX_REASON_BYTES: usize = 2000;
/// The longest message of a failure.
const MAX_MESSAGE_BYTES: usize = 4000;
/// The longest detail of a failure, such as a traceback.
const MAX_DETAIL_BYTES: usize = 64 << 10;

/// Measures an attempt, from the moment at which the worker takes the mini-batch from its queue.
#[derive(Debug)]
pub struct AttemptClock {
    began: Instant,
    before: ProcessUsage,
}

impl AttemptClock {
    /// `before` is what the process has used so far, if that is already known.
    pub fn start(before: Option<ProcessUsage>, meter: &CpuMeter) -> Self {
        Self { began: Instant::now(), before: before.unwrap_or_else(|| meter.used()) }
    }

    /// Seconds since the start, and what the process has used so far.
    pub fn stop(&self, meter: &CpuMeter) -> (f64, ProcessUsage) {
        (self.began.elapsed().as_secs_f64(), meter.used())
    }
}

/// The outcome of an attempt.
#[derive(Debug)]
pub struct Finished {
    /// What the call of `run` used. All zero if `run` was not called.
    pub run: CallStats,
    /// Statistics of inference during that call.
    pub inference: InferenceStats,
    /// The tally, the rows, and whether the guest made files.
    pub result: Result<(AttemptTally, Segment, bool), Failure>,
    /// [`AttemptReport::stamp`].
    pub stamp: u64,
}

/// Builds a report; `stopped` comes from [`AttemptClock::stop`].
pub fn report(
    assignment: &Assignment,
    clock: &AttemptClock,
    stopped: (f64, ProcessUsage),
    finished: Finished,
) -> AttemptReport {
    let (elapsed_seconds, now) = stopped;
    let used = now.since(clock.before);
    let mini_batch = &assignment.mini_batch;
    let new_report = |items, outcome| {
        AttemptReport::new(mini_batch.id, assignment.attempt, finished.stamp, items, outcome)
    };
    let report = match finished.result {
        Ok((mut tally, segment, has_files)) => {
            for item in &mut tally.failed_items {
                shorten(&mut item.reason, MAX_REASON_BYTES);
            }
            AttemptReport {
                failed_items: tally.failed_items,
                is_short: tally.is_short,
                surplus_rows: tally.surplus_rows,
                null_numbers: tally.null_numbers,
                unknown_keys: tally.unknown_keys,
                header: tally.header,
                has_files,
                ..new_report(tally.items, Ok(segment))
            }
        }
        Err(failure) => {
            let items = ItemCounts::from_returned(mini_batch.planned_items(), 0);
            new_report(items, Err(bounded(failure)))
        }
    };
    AttemptReport {
        elapsed_seconds,
        process_seconds: used.cpu,
        bytes_read: used.bytes_read,
        run: finished.run,
        inference: finished.inference,
        ..report
    }
}

/// Shortens a failure so that it fits into a frame.
pub fn bounded(mut failure: Failure) -> Failure {
    shorten(&mut failure.message, MAX_MESSAGE_BYTES);
    shorten(&mut failure.detail, MAX_DETAIL_BYTES);
    failure
}

/// A failure of the machine or of Sandmill, with the file or folder and the system's error.
pub fn host_fault(action: &str, path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot {action} {}: {error}", path.display());
    machine_failure(message, is_full(error))
}

fn machine_failure(message: String, is_disk_full: bool) -> Failure {
    match is_disk_full {
        true => Failure::new(FailureKind::NoSpace, message + "; free some space there"),
        false => Failure::new(FailureKind::HostFault, message),
    }
}

/// The failure of an attempt whose rows or files could not be stored.
pub fn not_stored(error: &OutputError) -> Failure {
    match error.is_guest_fault() {
        true => Failure::new(FailureKind::BadOutput, error.to_string()),
        false => machine_failure(error.to_string(), error.is_full()),
    }
}

/// The first bytes of a text, in whole characters. If something was cut, `…` follows.
pub(super) fn cut(text: &str, limit: usize) -> String {
    let mut cut = text[..text.floor_char_boundary(limit)].to_owned();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

fn shorten(text: &mut String, limit: usize) {
    if text.len() > limit + '…'.len_utf8() {
        *text = cut(text, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FailedItem, MiniBatch, MiniBatchId, MiniBatchWork};
    use crate::protocol::{FromWorker, encode};

    fn assignment() -> Assignment {
        let work = MiniBatchWork::Files(["a", "b"].into());
        let mini_batch = MiniBatch::new(MiniBatchId(3), 0, work);
        Assignment { mini_batch, attempt: 2, is_last: false, objects: Vec::new() }
    }

    #[test]
    fn all_items_of_a_failed_attempt_failed() {
        let failure = Failure::new(FailureKind::Trap, "ä".repeat(5000)).with_detail("x\n");
        let finished = Finished {
            run: CallStats::default(),
            inference: InferenceStats { calls: 3, ..InferenceStats::default() },
            result: Err(failure),
            stamp: 9,
        };
        let used = |cpu, bytes| ProcessUsage { cpu, bytes_read: Some(bytes) };
        let clock = AttemptClock::start(Some(used(0.5, 100)), &CpuMeter::open());
        let report = report(&assignment(), &clock, (0.25, used(0.75, 1100)), finished);
        assert_eq!((report.elapsed_seconds, report.process_seconds), (0.25, 0.25));
        assert_eq!(report.bytes_read, Some(1000));
        assert_eq!((report.id, report.attempt, report.stamp), (MiniBatchId(3), 2, 9));
        assert_eq!(report.inference.calls, 3);
        assert_eq!(report.items, ItemCounts { total: 2, succeeded: 0, failed: 2 });
        let failure = report.outcome.unwrap_err();
        assert_eq!(failure.message.chars().count(), 2001);
        assert_eq!(failure.detail, "x\n");
    }

    #[test]
    fn the_longest_report_fits_into_a_frame() {
        let item = FailedItem {
            item: "p".repeat(4096),
            reason: "r".repeat(1 << 20),
            ..FailedItem::sample()
        };
        let tally = AttemptTally {
            items: ItemCounts::from_returned(2, 0),
            failed_items: vec![item; AttemptReport::MAX_FAILED_ITEMS],
            is_short: false,
            surplus_rows: 0,
            null_numbers: 0,
            unknown_keys: None,
            header: Some("h".repeat(1 << 20).as_str().into()),
        };
        let finished = Finished {
            run: CallStats::default(),
            inference: InferenceStats::default(),
            result: Ok((tally, Segment::sample(), false)),
            stamp: 0,
        };
        let clock = AttemptClock::start(None, &CpuMeter::open());
        let report = report(&assignment(), &clock, clock.stop(&CpuMeter::open()), finished);
        encode(&FromWorker::Finished(Box::new(report)), &mut Vec::new()).unwrap();
    }
}
