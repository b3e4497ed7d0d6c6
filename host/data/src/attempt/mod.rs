//! The data of one attempt at a mini-batch, before and after the call of `run`. This module uses no
//! sandbox and no socket, so that tests and fuzzing can run it by themselves.
//!
//! - [`Loader`] makes the data for `run` ([`LoadedMiniBatch`]) from a mini-batch's descriptor; `stage` shows
//!   the guest single files of a folder.
//! - [`RowSink`] takes what `run` returns and judges it; the result is an [`AttemptTally`].
//! - [`Outgoing`] makes one Arrow IPC stream from the results, for a program that reads the stream while
//!   it is written.
//! - [`report()`] builds the report of an attempt for the leader, with bounded length.

mod cpu;
#[cfg(any(test, feature = "testing"))]
mod fuzzing;
mod load;
mod loaded;
mod outgoing;
mod report;
mod sink;
mod stage;
mod tally;

pub use cpu::{CpuMeter, ProcessUsage};
#[cfg(any(test, feature = "testing"))]
pub use fuzzing::judge as fuzz_judge;
pub use load::Loader;
pub use loaded::LoadedMiniBatch;
pub use outgoing::Outgoing;
pub use report::{AttemptClock, Finished, bounded, host_fault, not_stored, report};
pub use sink::RowSink;
pub use tally::AttemptTally;
