//! The child side of a worker: it takes descriptors, loads the entry script, runs it, writes rows and
//! answers. It imports `sandbox` and crates below, never `pool`.
//!
//! - `serve`: from the process's start to its exit code; `lockdown` and `process` are its parts.
//! - `session`: the conversation with the leader; `attempt`: one mini-batch, from descriptor to report.
//! - `zygote`: a process that forks workers; `code`: the code that they run.
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
