//! The child side of a worker: take descriptors, load, run, write rows, answer. Imports `sandbox`
//! and below, never `pool`.
//!
//! - `serve`: from the process's start to its exit code; `lockdown` and `process` are its parts.
//! - `session`: the conversation with the leader; `attempt`: one mini-batch, from descriptor to
//!   report.
//! - `nursery`: a process that forks workers; `code`: what they run.
//! - `folder`: the files that a guest writes. `sandmill_data::attempt` has what the guest is given, and judges what it
//!   returns.
//! - `guest`: the instance and its replacement; `link`: the way to the leader.

mod attempt;
mod code;
mod folder;
mod guest;
mod link;
mod lockdown;
mod nursery;
mod process;
mod serve;
mod session;

pub use serve::{EXIT_FAULT, EXIT_INIT_FAILED, serve};
