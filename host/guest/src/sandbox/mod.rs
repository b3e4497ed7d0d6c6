//! The first wall: everything that touches a wasmtime store.
//!
//! - `program`, `instance`: load, instantiate, call;
//! - `grants`: what a guest may see and use, and the WASI context made of it;
//! - `state`: the only data of a store; `limits`: its memory budget; `quota`: what a call may write,
//!   `log_folder`: and what may stay of it (`counted` says what is counted);
//! - `host`, `host_calls`: the interface `sandmill:entry/host`; `files`, `whole_file`: reading items under the same grants;
//! - `nn`: the interfaces `wasi:nn` and `sandmill:entry/models`;
//! - `writing`, `listing`: what of WASI's files is counted or bounded here (`kept`: what stays); `noticed`, `looks`: and
//!   what is seen of the mini-batch's files when they are read; `paths`, `path_length`: which paths are too long;
//! - `profile`: samples of what a guest is doing;
//! - `clock`: sleeping; `seed`, `virtual_time`, `plain_files`, `seen`: what deterministic jobs have instead of
//!   the machine's random numbers, clocks and facts about files;
//! - `sink`: stdout, stderr and the log, cut at a size;
//! - `types`: parameters and results in the guest's memory; `traps`: errors as failures; `error`: why a guest
//!   does not get what it asks for.
//!
//! **Threads.** A guest runs on the thread that calls [`Instance`]. That thread needs
//! [`guest_thread_stack`] bytes of stack, and must not be inside an async
//! runtime's `block_on`. No thread is started before a guest sleeps for the first time,
//! or is profiled.
//!
//! Imports `compile` and below.

mod clock;
mod counted;
mod error;
mod files;
mod grants;
mod host;
mod host_calls;
mod instance;
mod kept;
mod limits;
mod listing;
mod log_folder;
mod looks;
mod nn;
mod noticed;
mod panics;
mod path_length;
mod paths;
mod plain_files;
mod profile;
mod program;
mod quota;
mod seed;
mod seen;
mod sink;
mod state;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;
mod traps;
mod types;
mod virtual_time;
mod whole_file;
mod writing;

pub use crate::output::{MiniBatchData, ResultSink};
pub use grants::Grants;
pub use instance::{Context, Instance};
pub use log_folder::LogFolder;
#[cfg(any(test, feature = "testing"))]
pub use nn::no_models;
pub use profile::Profiler;
pub use program::{Program, check_imports, guest_thread_stack};
pub use seed::Seed;
pub use sink::LogFile;
