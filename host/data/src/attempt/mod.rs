//! The data of one attempt at a mini-batch, on both sides of the call of `run`. It knows no sandbox and no socket, so
//! that tests and fuzzing can run it alone.
//!
//! - [`Loader`] makes what `run` is given ([`Loaded`]) from a mini-batch's descriptor; `stage` shows the guest single
//!   files of a folder.
//! - [`Sink`] takes what `run` returns and judges it; the result is a [`Tally`].
//! - [`Outgoing`] makes one Arrow IPC stream of what came back, where a program reads it meanwhile.
//! - [`report()`] puts together what the leader reads of an attempt, in bounded length.

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

pub use cpu::{Meter, Used};
#[cfg(any(test, feature = "testing"))]
pub use fuzzing::judge as fuzz_judge;
pub use load::Loader;
pub use loaded::Loaded;
pub use outgoing::Outgoing;
pub use report::{Clock, Finished, bounded, host_fault, not_stored, report};
pub use sink::Sink;
pub use tally::Tally;
