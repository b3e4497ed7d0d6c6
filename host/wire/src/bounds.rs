//! Limits on the content of messages. An honest child process stays far below these limits. A message that
//! exceeds one is rejected, because its sender is broken or compromised.

use super::{FrameError, FromPlanner, FromWorker, PlanPlace, PlanPosition};
use sandmill_model::{
    AttemptReport, ByteSize, CallStats, Failure, MiniBatch, MiniBatchWork, OutputHeader,
    TableSlice, TextSlice, WallState, is_plainly_below,
};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest one-line message of a failure, in bytes. Honest workers shorten it before they send
/// it.
const MAX_MESSAGE_BYTES: usize = 8 << 10;
/// The longest detail of a failure, and the longest text of a planner, in bytes. Honest senders
/// shorten both before they send them.
const MAX_TEXT_BYTES: usize = 128 << 10;
/// The longest path of a failed item, in bytes.
const MAX_ITEM_BYTES: usize = 64 << 10;
/// The longest reason of a failed item, in bytes.
const MAX_REASON_BYTES: usize = 4 << 10;
/// The longest header of an output file, in bytes: its three parts together. Workers refuse a part of more
/// than a third of this.
const MAX_HEADER_BYTES: usize = 3 << 20;
/// The longest text about a layer of the process wall, in bytes: its name and, if it is missing,
/// the reason.
const MAX_LAYER_BYTES: usize = 4 << 10;
/// The longest time that a worker may report for a call, in seconds: about thirty years.
const MAX_SECONDS: f64 = 1e9;
/// The most items of a mini-batch. Sums over mini-batches still fit into 64 bits.
const MAX_ITEMS: u64 = 1 << 40;
/// The largest position of a byte, row or line in a file. Sums of a few positions still fit into 64 bits.
const MAX_POSITION: u64 = 1 << 60;

/// The most files that a planner may name in advance. An honest planner names fewer.
const MAX_NEXT_FILES: usize = 64;
/// The longest path of a file that the planner opens, in bytes. The kernel refuses longer paths.
const MAX_PATH_BYTES: usize = 4 << 10;

type Checked = Result<(), FrameError>;

fn require(condition: bool, fault: &'static str) -> Checked {
    if condition { Ok(()) } else { Err(FrameError::Beyond(fault)) }
}

impl FromWorker {
    /// Checks that everything in the message is within the limits. `results` is the job's `limits.results`,
    /// which an honest worker enforces on its guest's rows. The node's state machine checks the order of
    /// messages.
    ///
    /// # Errors
    /// [`FrameError::Beyond`].
    pub fn check(&self, results: ByteSize) -> Checked {
        match self {
            Self::Ready { init, wall } => check_call(init).and_then(|()| check_layers(wall)),
            Self::InitFailed { failure } => check_failure(failure),
            Self::Finished(report) => check_report(report, results),
            Self::Started { .. } | Self::Restarting => Ok(()),
        }
    }
}

impl FromPlanner {
    /// Checks that everything in the message is within the limits.
    ///
    /// # Errors
    /// [`FrameError::Beyond`].
    pub fn check(&self) -> Checked {
        match self {
            Self::Columns(text) | Self::Notice(text) | Self::Failed(text) => {
                require(text.len() <= MAX_TEXT_BYTES, "a long text")
            }
            Self::Opening { file, next, .. } => {
                let mut files = next.iter().chain([file]);
                let are_below = files.all(|file| file.len() <= MAX_PATH_BYTES && stays_below(file));
                require(
                    are_below && next.len() <= MAX_NEXT_FILES,
                    "a file outside of its input, or many files",
                )
            }
            Self::MiniBatches(batches) => batches.iter().try_for_each(check_mini_batch),
            Self::Share(share) => require(*share <= 1000, "more than all of the inputs"),
            Self::Position(position) => check_position(position),
            Self::Tables(_)
            | Self::Finished
            | Self::Closed
            | Self::Continues
            | Self::CannotContinue => Ok(()),
        }
    }
}

/// Records whether a planner that [asks](crate::PlanRequest::asks) is waiting for an answer. A planner that
/// sent further questions without waiting could fill the leader's memory.
#[derive(Debug, Default)]
pub struct PlannerQuestion(AtomicBool);

impl PlannerQuestion {
    /// Records a message from the planner.
    ///
    /// # Errors
    /// [`FrameError::Beyond`] if the planner asks while it waits for an answer.
    pub fn on_report(&self, message: &FromPlanner) -> Result<(), FrameError> {
        let asks = matches!(message, FromPlanner::Opening { waits: true, .. });
        require(
            !asks || !self.0.swap(true, Ordering::AcqRel),
            "a question before the answer to the previous question",
        )
    }

    /// Records the answer. The caller must call this just before it writes the answer.
    pub fn answer(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the planner waits for an answer.
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

fn check_seconds(seconds: f64) -> Checked {
    // NaN is in no range.
    require((0.0..=MAX_SECONDS).contains(&seconds), "an impossible time")
}

fn check_call(call: &CallStats) -> Checked {
    check_seconds(call.seconds)
}

fn check_layers(wall: &WallState) -> Checked {
    let mut layers = wall.active.iter().chain(&wall.missing);
    require(layers.all(|layer| layer.len() <= MAX_LAYER_BYTES), "a long text")
}

fn check_failure(failure: &Failure) -> Checked {
    let is_short =
        failure.message.len() <= MAX_MESSAGE_BYTES && failure.detail.len() <= MAX_TEXT_BYTES;
    require(is_short, "a long text")
}

fn check_report(report: &AttemptReport, results: ByteSize) -> Checked {
    check_seconds(report.elapsed_seconds)?;
    check_seconds(report.process_seconds)?;
    check_call(&report.run)?;
    let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let header_length = |header: &OutputHeader| {
        header.text.len() + length(&header.bytes) + length(&header.open_columns)
    };
    let header = report.header.as_ref().map_or(0, header_length);
    require(header <= MAX_HEADER_BYTES, "a long header line")?;
    let mut items = report.failed_items.iter();
    let are_short = items
        .all(|item| item.item.len() <= MAX_ITEM_BYTES && item.reason.len() <= MAX_REASON_BYTES);
    require(are_short, "a long text")?;
    match &report.outcome {
        Ok(segment) => require(segment.length <= results.0, "more rows than limits.results allows"),
        Err(failure) => check_failure(failure),
    }
}

fn check_mini_batch(batch: &MiniBatch) -> Checked {
    let mut files = batch.files().map(|(_, file)| file);
    require(files.all(stays_below), "a file outside of its input")?;
    require(batch.unfetched.is_empty(), "reasons that only the leader may add")?;
    require(batch.spill.is_none(), "a place in the store that only the leader may add")?;
    match &batch.work {
        MiniBatchWork::Text(slice) => check_text_slice(slice),
        MiniBatchWork::TextGroup(slices) => {
            slices.iter().try_for_each(|(_, slice)| check_text_slice(slice))
        }
        MiniBatchWork::Rows(rows) => {
            check_text_slice(&rows.text)?;
            let end = rows.origins_offset.checked_add(rows.origins_length);
            require(end.is_some_and(|end| end <= MAX_POSITION), "a position beyond any file")?;
            require(
                stays_below(&rows.origins) && stays_below(&rows.names),
                "a file outside of its folder",
            )
        }
        MiniBatchWork::Table(slice) => check_table_slice(slice),
        MiniBatchWork::TableGroup(slices) => {
            slices.iter().try_for_each(|(_, slice)| check_table_slice(slice))
        }
        MiniBatchWork::Unreadable(bad) => require(
            stays_below(&bad.file) && bad.reason.len() <= MAX_TEXT_BYTES,
            "a file outside of its input, or a long text",
        ),
        MiniBatchWork::Files(_) | MiniBatchWork::FileGroup(_) | MiniBatchWork::Void => Ok(()),
    }?;
    require(batch.planned_items() <= MAX_ITEMS, "more items than possible")
}

fn check_table_slice(slice: &TableSlice) -> Checked {
    require(stays_below(&slice.file), "a file outside of its input")?;
    let positions = [slice.part, slice.skip, slice.first_row, slice.bytes];
    require(
        positions.iter().all(|&position| position <= MAX_POSITION),
        "a position beyond any file",
    )
}

fn check_position(position: &PlanPosition) -> Checked {
    let numbers = match position.place {
        PlanPlace::Text { offset, lines } => [offset, lines],
        PlanPlace::Table { mini_batches } => [mini_batches, 0],
        PlanPlace::FileEnd | PlanPlace::PlanEnd => [0, 0],
    };
    require(
        numbers.iter().chain([&position.mini_batches]).all(|&number| number <= MAX_POSITION),
        "a position beyond any file",
    )?;
    require(
        position.file.len() <= MAX_PATH_BYTES && stays_below(&position.file),
        "a file outside of its input",
    )
}

fn check_text_slice(slice: &TextSlice) -> Checked {
    let unpacked = slice.unpacked.as_deref();
    require(unpacked.is_none_or(stays_below), "a file outside of its folder")?;
    require(stays_below(&slice.file), "a file outside of its input")?;
    let end = slice.offset.checked_add(slice.length);
    require(end.is_some_and(|end| end <= MAX_POSITION), "a position beyond any file")?;
    require(
        slice.rows <= slice.length && slice.first_line <= MAX_POSITION,
        "more records than bytes",
    )
}

/// Whether a path can only lead downwards from its root.
fn stays_below(path: &str) -> bool {
    let down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    is_plainly_below(path) || Path::new(path).components().all(down) && !path.contains('\0')
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
