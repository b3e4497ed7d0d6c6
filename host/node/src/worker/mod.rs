//! The child side of a worker: loads the entry script, runs its mini-batches, writes their rows, and reports
//! to the leader. Imports `machine_slots`, `sandbox` and crates below, never `pool`.
//!
//! - `serve`: from the process's start to its exit code; `lockdown` and `process` are its parts.
//! - `session`: the conversation with the leader; `attempt`: one attempt, from assignment to report.
//! - `zygote`: the process from which workers are forked; `code`: the code that workers run.
//! - `folder`: the folders in which a guest writes. `sandmill_data::attempt` makes the guest's data, and
//!   checks its results.
//! - `guest`: the instance and its replacement; `link`: the connection to the leader.

mod attempt;
mod code;
mod folder;
mod guest;
mod link;
mod lockdown;
mod process;
mod serve;
mod session;
mod zygote;

pub use serve::{EXIT_FAULT, EXIT_INIT_FAILED, serve};
