//! The child side of a worker: take descriptors, load, run, write rows, answer. Imports `sandbox`
//! and below, never `pool`.
//!
//! - `serve`: from the process's start to its exit code; `lockdown` and `process` are its parts.
//! - `session`: the conversation with the leader; `attempt`: one mini-batch, from descriptor to
//!   report.
//! - `nursery`: a process that forks workers; `code`: what they run.
//! - `load`, `loaded`, `stage`: what the guest is given; `sink`, `folder`: what it gives back; `tally`, `report`: what
//!   the leader is told of it.
//! - `guest`: the instance and its replacement; `link`: the way to the leader.

mod attempt;
mod code;
mod folder;
mod guest;
mod link;
mod load;
mod loaded;
mod lockdown;
mod nursery;
mod process;
mod report;
mod serve;
mod session;
mod sink;
mod stage;
mod tally;

pub use serve::{EXIT_FAULT, EXIT_INIT_FAILED, serve};
#[cfg(any(test, fuzzing, feature = "testing"))]
pub use sink::fuzzing::judge as fuzz_judge;
