//! From a core module with an interpreter to an entry script: the interpreter's own state is made once, and kept.
//!
//! The module has the exports `_initialize`, `wizer.initialize`, `host_alloc(length) -> address` and
//! `turn(address, length) -> status`, which runs a text of the interpreter's language and frees it. Its one import
//! beside WASI 0.1, `host.call(address, length, *address, *length) -> i32`, is what that text calls out with.
//!
//! - `world`: the contract, and the functions of the host that the interpreter calls;
//! - `glue`: a module of some hundred instructions between the two, which knows addresses and nothing of their content;
//! - `assemble`: the component of module and glue;
//! - `snapshot`: the module with the memory that a prepared interpreter had.

mod assemble;
mod glue;
mod snapshot;
mod world;

pub use world::{WIT, host_functions};
pub(super) use {assemble::assemble, assemble::preparing, snapshot::snapshot};
