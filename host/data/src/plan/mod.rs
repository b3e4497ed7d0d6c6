//! Cuts inputs into mini-batches. A separate process does this, because planning parses untrusted
//! files.
//!
//! - `files` and `tables` (which uses `text` and `columnar`) cut by size.
//! - `groups` and `keyed_tables` cut by partition keys. The processes of `shuffle` gather rows from many
//!   files.
//! - `input` is an input of tables, `columns` reports columns, `mini_batch_digest` makes stamps, and `share`
//!   measures the progress.
//! - `position` is about places from which another planner can continue.
//! - `plan_writer` groups descriptors into messages; `serve` is the process, behind the wall of `lockdown`.
//!
//! This module imports `dataset`, `protocol`, `wall` and below.

mod columnar;
mod columns;
mod files;
mod groups;
mod input;
mod keyed_tables;
mod lockdown;
mod mini_batch_digest;
mod plan_writer;
mod position;
mod serve;
mod share;
mod shuffle;
mod tables;
mod text;

pub use serve::serve;
pub use shuffle::{SHUFFLE_COMMAND, serve as serve_shuffle};

use crate::dataset::DatasetError;
use crate::protocol::{CutOptions, FromPlanner, MayOpen, PROTOCOL_VERSION, PlanRequest};
use plan_writer::PlanWriter;
use position::PlanCourse;
use shuffle::ShuffleContext;
use std::io;

/// Why planning ended early.
#[derive(Debug, thiserror::Error)]
enum PlanError {
    /// The inputs, or the request, cannot be used.
    #[error(transparent)]
    Input(#[from] DatasetError),
    /// The plan cannot be sent, or the leader is gone.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// An earlier plan cannot be continued, because its files have changed.
    #[error("the inputs have changed since an earlier planner read them")]
    CannotContinue,
}

/// A [`PlanError`] that is shown to the user, from a format string.
macro_rules! err {
    ($($argument:tt)*) => {
        Err($crate::plan::PlanError::Input($crate::dataset::DatasetError(format!($($argument)*))))
    };
}
use err;

/// Makes a plan, and passes each message to `emit` as soon as it is complete. If the planner may ask the
/// leader for files, `next_answer` waits for the next answer. Errors in the inputs become a message; only an
/// error of `emit` or `next_answer` is returned, and it stops planning.
fn plan_with(
    tools: ShuffleContext<'_>,
    next_answer: &dyn Fn() -> io::Result<MayOpen>,
    emit: &mut dyn FnMut(FromPlanner) -> io::Result<()>,
) -> io::Result<()> {
    let PlanRequest { memory, retried_files, partition_keys, asks, sample, .. } = tools.request;
    // With partition keys, a mini-batch combines many files, so a retried file does not have a
    // place of its own that it could keep.
    let retried_files = if partition_keys.is_empty() { retried_files.as_slice() } else { &[] };
    let mut writer = PlanWriter::new(emit, *memory, retried_files);
    writer.follow(PlanCourse::new(tools.request), tools.request.continue_from.as_ref());
    writer.keep_sample(*sample);
    if asks.are_answered() {
        writer.set_next_answer(next_answer);
    }
    match plan_all(tools, &mut writer) {
        Ok(()) => emit(FromPlanner::Finished),
        Err(PlanError::Input(error)) => emit(FromPlanner::Failed(error.to_string())),
        Err(PlanError::CannotContinue) => emit(FromPlanner::CannotContinue),
        Err(PlanError::Output(error)) => Err(error),
    }
}

fn plan_all(tools: ShuffleContext<'_>, writer: &mut PlanWriter<'_>) -> Result<(), PlanError> {
    let request = tools.request;
    if request.protocol != PROTOCOL_VERSION {
        return err!(
            "the planner speaks version {PROTOCOL_VERSION} of the protocol, the leader version {}: \
             the program was replaced while a job ran; start the job again",
            request.protocol,
        );
    }
    let keys = &request.partition_keys;
    match &request.cut {
        CutOptions::Files { .. } if !keys.is_empty() => {
            groups::plan_file_groups(&request.sources, keys, writer)?;
        }
        CutOptions::Void { .. } if !keys.is_empty() => {
            return err!("partition_keys needs inputs; remove it, or name inputs");
        }
        CutOptions::Files { count } => files::plan_files(&request.sources, *count, writer)?,
        CutOptions::Tables { size, inputs, full_inference } => {
            let inputs = input::inputs_of(request, inputs, *full_inference)?;
            tables::plan_tables(&inputs, *size, tools, writer)?;
        }
        CutOptions::Void { count } => files::plan_void(*count, writer)?,
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod bad_files_tests;
#[cfg(test)]
mod partition_tests;
#[cfg(test)]
mod position_tests;
#[cfg(test)]
mod tests;
