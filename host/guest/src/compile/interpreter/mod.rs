//! Turns a core module that contains an interpreter (CPython) into an entry script. The interpreter is
//! initialised once, and its memory is saved.
//!
//! The module exports `_initialize`, `wizer.initialize`, `host_alloc(length) -> address` and `turn(address,
//! length) -> status`. `turn` runs a text in the interpreter's language and frees it. The module imports WASI
//! 0.1 and `host.call(address, length, *address, *length) -> i32`, with which the text calls the host.
//!
//! - `world`: the contract, and the host functions that the interpreter calls;
//! - `glue`: a module of some hundred instructions between the interpreter and the contract. It
//!   passes on addresses, but does not read the data there;
//! - `assemble`: combines the module and the glue into a component;
//! - `snapshot`: combines the module with the memory of a prepared interpreter.

mod assemble;
mod glue;
mod snapshot;
mod world;

pub use world::{WIT, host_functions};
pub(super) use {assemble::assemble, assemble::preparing, snapshot::snapshot};
