//! The first wall: everything that touches a wasmtime store.
//!
//! - `program`, `instance`: load, instantiate, call;
//! - `grants`: what a guest may see and use, and the WASI context made of it;
//! - `state`: the only data of a store; `limits`: its memory budget;
//! - `host`: the interface `sandmill:entry/host`; `files`: reading items under the same grants;
//! - `profile`: samples of what a guest is doing;
//! - `clock`: sleeping; `sink`: stdout, stderr and the log, cut at a size;
//! - `types`: parameters and results in the guest's memory; `traps`: errors as failures.
//!
//! **Threads.** A guest runs on the thread that calls [`Instance`]. That thread needs
//! `MAX_WASM_STACK` + 2 MB of stack ([`GUEST_THREAD_STACK`]), and must not be inside an async
//! runtime's `block_on`. No thread is started before a guest sleeps for the first time,
//! or is profiled.
//!
//! Imports `compile` and below.

mod clock;
mod files;
mod grants;
mod host;
mod instance;
mod limits;
mod profile;
mod program;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod traps;
mod types;

pub use grants::Grants;
pub use instance::{Context, Instance, MiniBatchData, ResultSink};
pub use profile::Profiler;
pub use program::Program;

/// Bytes of stack for a thread that runs guests.
pub const GUEST_THREAD_STACK: usize = crate::compile::MAX_WASM_STACK + (2 << 20);
