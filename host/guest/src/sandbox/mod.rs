//! Runs guests in wasmtime, which is the first wall around them. All code that uses a wasmtime store is here.
//!
//! - `program`, `instance`: load, instantiate, call;
//! - `grants`: what a guest may see and use, and the WASI context that grants it;
//! - `state`: the data of a store; `limits`: its memory budget; `quota`: the limit on what a call may write;
//!   `log_folder`: the limit on what may stay in the log folder; `counted`: the kinds of these limits;
//! - `host`, `host_calls`: the interface `sandmill:entry/host`; `files`, `whole_file`: read whole files with
//!   the same grants;
//! - `nn`: the interfaces `wasi:nn` and `sandmill:entry/models`;
//! - `writing`, `listing`: replace WASI's file functions, to count or limit what they do;
//!   `log_descriptors`: tracks which files are in the log folder; `noticed`, `file_metadata`:
//!   record the state of the mini-batch's files when the guest reads them; `paths`, `path_length`:
//!   refuse paths that are too long; `linked`: the types of the functions that these modules link;
//! - `profile`: samples of what a guest is doing;
//! - `clock`: sleeping; `seed`, `virtual_time`, `plain_files`, `object_numbers`: replace the machine's random
//!   numbers, clocks and file attributes in deterministic jobs;
//! - `sink`: stdout, stderr and the log, with a size limit;
//! - `types`: parameters and results in the guest's memory; `traps`: turns errors into failures; `error`: why
//!   a guest's request is refused.
//!
//! **Threads.** A guest runs on the thread that calls [`Instance`]. That thread needs [`guest_thread_stack`]
//! bytes of stack, and must not be inside an async runtime's `block_on`. No thread starts before a guest
//! sleeps for the first time, or is profiled.
//!
//! Imports `compile` and the layers below it.

mod clock;
mod counted;
mod error;
mod file_metadata;
mod files;
mod grants;
mod host;
mod host_calls;
mod instance;
mod limits;
mod linked;
mod listing;
mod log_descriptors;
mod log_folder;
mod nn;
mod noticed;
mod object_numbers;
mod panics;
mod path_length;
mod paths;
mod plain_files;
mod profile;
mod program;
mod quota;
mod seed;
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
pub use instance::{Instance, RunContext};
pub use log_folder::LogFolder;
#[cfg(any(test, feature = "testing"))]
pub use nn::no_models;
pub use profile::GuestProfiler;
pub use program::{GuestProgram, check_imports, guest_thread_stack};
pub use seed::Seed;
pub use sink::SinkFile;
