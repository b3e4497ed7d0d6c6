//! Limits on the content of messages. An honest child stays far below them. A message that exceeds one is
//! rejected, because its sender is broken or compromised.

use super::{FrameError, FromPlanner, FromWorker};
use sandmill_model::{
    AttemptReport, ByteSize, CallStats, Failure, MiniBatch, MiniBatchWork, OutputHeader,
    TableSlice, TextSlice, WallState, is_plainly_below,
};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a failure's one-line message; workers cut it at less.
const MESSAGE: usize = 8 << 10;
/// Bytes of a failure's detail, and of a planner's texts; workers cut them at less.
const DETAIL: usize = 128 << 10;
/// Bytes of the path of a failed item, and of the reason.
const ITEM: usize = 64 << 10;
const REASON: usize = 4 << 10;
/// Bytes of a header, as text and as written to the output; workers refuse more than a third of this for
/// each.
const HEADER: usize = 3 << 20;
/// Bytes of the name of a layer of the wall, including the reason why it is missing.
const LAYER: usize = 4 << 10;
/// Seconds that a call may take by a worker's account: about thirty years.
const SECONDS: f64 = 1e9;
/// Items of a mini-batch, and the position of a byte. Sums of them stay far below what 64 bits hold.
const COUNT: u64 = 1 << 40;
const PLACE: u64 = 1 << 60;

/// Files that a planner may name in advance; it names fewer.
const NEXT: usize = 64;
/// Bytes of the path of a file that the planner opens: the kernel accepts no longer path.
const PATH: usize = 4 << 10;

type Checked = Result<(), FrameError>;

fn hold(condition: bool, what: &'static str) -> Checked {
    if condition { Ok(()) } else { Err(FrameError::Beyond(what)) }
}

impl FromWorker {
    /// Checks that everything in the message is within the limits. `results` is the job's `limits.results`;
    /// an honest worker enforces it on its guest's rows. The order of messages is not checked here, but by
    /// the state machine.
    ///
    /// # Errors
    /// [`FrameError::Beyond`].
    pub fn check(&self, results: ByteSize) -> Checked {
        match self {
            Self::Ready { init, wall } => call(init).and_then(|()| layers(wall)),
            Self::InitFailed { failure } => texts(failure),
            Self::Finished(report) => attempt(report, results),
            Self::Started { .. } | Self::Restarting => Ok(()),
        }
    }
}

impl FromPlanner {
    /// As [`FromWorker::check`].
    ///
    /// # Errors
    /// [`FrameError::Beyond`].
    pub fn check(&self) -> Checked {
        match self {
            Self::Columns(text) | Self::Notice(text) | Self::Failed(text) => {
                hold(text.len() <= DETAIL, "a long text")
            }
            Self::Opening { file, next, .. } => {
                let mut files = next.iter().chain([file]);
                let are_below = files.all(|file| file.len() <= PATH && stays_below(file));
                hold(are_below && next.len() <= NEXT, "a file outside of its input, or many files")
            }
            Self::MiniBatches(batches) => batches.iter().try_for_each(mini_batch),
            Self::Share(share) => hold(*share <= 1000, "more than all of the inputs"),
            Self::Tables(_) | Self::Finished | Self::Closed => Ok(()),
        }
    }
}

/// Whether a planner that [asks](crate::PlanRequest::asks) is waiting for an answer. A planner that sent
/// further questions without waiting could fill its leader's memory.
#[derive(Debug, Default)]
pub struct PlannerQuestion(AtomicBool);

impl PlannerQuestion {
    /// Records a message from the planner.
    ///
    /// # Errors
    /// [`FrameError::Beyond`] if the planner asks while it waits for an answer.
    pub fn on_report(&self, message: &FromPlanner) -> Result<(), FrameError> {
        let asks = matches!(message, FromPlanner::Opening { waits: true, .. });
        hold(
            !asks || !self.0.swap(true, Ordering::AcqRel),
            "a question before the last one's answer",
        )
    }

    /// The leader calls this just before it writes the answer.
    pub fn answer(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the planner waits for an answer.
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

fn seconds(seconds: f64) -> Checked {
    // NaN is in no range.
    hold((0.0..=SECONDS).contains(&seconds), "an impossible time")
}

fn call(call: &CallStats) -> Checked {
    seconds(call.seconds)
}

fn layers(wall: &WallState) -> Checked {
    let mut all = wall.active.iter().chain(&wall.missing);
    hold(all.all(|layer| layer.len() <= LAYER), "a long text")
}

fn texts(failure: &Failure) -> Checked {
    hold(failure.message.len() <= MESSAGE && failure.detail.len() <= DETAIL, "a long text")
}

fn attempt(report: &AttemptReport, results: ByteSize) -> Checked {
    seconds(report.elapsed_seconds)?;
    seconds(report.process_seconds)?;
    call(&report.run)?;
    let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let all = |header: &OutputHeader| {
        header.text.len() + length(&header.bytes) + length(&header.open_columns)
    };
    let header = report.header.as_ref().map_or(0, all);
    hold(header <= HEADER, "a long header line")?;
    let mut items = report.failed_items.iter();
    let short = items.all(|item| item.item.len() <= ITEM && item.reason.len() <= REASON);
    hold(short, "a long text")?;
    match &report.outcome {
        Ok(segment) => hold(segment.length <= results.0, "more rows than limits.results allows"),
        Err(failure) => texts(failure),
    }
}

fn mini_batch(batch: &MiniBatch) -> Checked {
    let mut files = batch.files().map(|(_, file)| file);
    hold(files.all(stays_below), "a file outside of its input")?;
    hold(batch.unfetched.is_empty(), "what only the leader knows")?;
    match &batch.work {
        MiniBatchWork::Text(of) => slice(of),
        MiniBatchWork::TextGroup(slices) => slices.iter().try_for_each(|(_, of)| slice(of)),
        MiniBatchWork::Rows(rows) => {
            slice(&rows.text)?;
            let end = rows.origins_offset.checked_add(rows.origins_length);
            hold(end.is_some_and(|end| end <= PLACE), "a place beyond any file")?;
            hold(stays_below(&rows.origins) && stays_below(&rows.names), "a file outside")
        }
        MiniBatchWork::Table(of) => table_slice(of),
        MiniBatchWork::TableGroup(slices) => slices.iter().try_for_each(|(_, of)| table_slice(of)),
        MiniBatchWork::Unreadable(bad) => hold(
            stays_below(&bad.file) && bad.reason.len() <= DETAIL,
            "a file outside of its input, or a long text",
        ),
        MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) | MiniBatchWork::Void => Ok(()),
    }?;
    hold(batch.planned_items() <= COUNT, "more items than possible")
}

fn table_slice(slice: &TableSlice) -> Checked {
    hold(stays_below(&slice.file), "a file outside of its input")?;
    let places = [slice.part, slice.skip, slice.first_row, slice.bytes];
    hold(places.iter().all(|&place| place <= PLACE), "a place beyond any file")
}

fn slice(slice: &TextSlice) -> Checked {
    let unpacked = slice.unpacked.as_deref();
    hold(unpacked.is_none_or(stays_below), "a file outside")?;
    hold(stays_below(&slice.file), "a file outside of its input")?;
    let end = slice.offset.checked_add(slice.length);
    hold(end.is_some_and(|end| end <= PLACE), "a place beyond any file")?;
    hold(slice.rows <= slice.length && slice.first_line <= PLACE, "more records than bytes")
}

/// Whether a path can only lead downwards from its root.
fn stays_below(path: &str) -> bool {
    let down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    is_plainly_below(path) || Path::new(path).components().all(down) && !path.contains('\0')
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
