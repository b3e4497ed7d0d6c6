//! Turns a guest crate, core module or component into compiled code in a cache.
//!
//! - `engine`: the only place that configures the engine;
//! - `artifact`: recognises the kind of a file, and turns core modules into components;
//! - `contract`: checks that a component keeps the contract (the interfaces in `wit/`); `imports`: the
//!   imports that are allowed;
//! - `takes`: the kind of mini-batch that an entry script takes;
//! - `cache`: compiled code on disk; `tidy`: measures and removes it;
//! - `compiler`: the parent's side of the compiler process; `child`: the process itself, which alone parses
//!   the bytes of an entry script; `task`: the requests that the parent sends;
//! - `description`: what a component could access;
//! - `interpreter`: turns the module of an interpreter into an entry script;
//! - `toolchain`, `guest_crate`: build a guest crate's folder into a component; `c_folder`: builds C sources.
//!
//! Imports `model`, `protocol` and `wall`.

mod artifact;
mod build_folder;
mod c_folder;
mod cache;
mod child;
mod compiler;
mod contract;
mod description;
mod engine;
mod entry_file;
mod guest_crate;
mod hash;
mod imports;
mod interpreter;
mod takes;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tidy;
mod toolchain;
mod wit_text;

use artifact::componentize;
pub use artifact::{Artifact, identify};
pub use build_folder::{built_guests, clear_built_guests, guests_folder};
pub use cache::{Cache, Compiled};
#[cfg(any(test, feature = "testing"))]
pub use child::compile_here;
pub use child::{CheckImports, serve_compile};
pub use compiler::Compiler;
pub use contract::{
    ComponentNames, ComponentOutline, EntryFunctions, check_names, find_entry, read_names,
};
pub use description::{
    DeclaredMemory, DeclaredTable, Export, Import, ImportPower, Producer, ScriptDescription,
};
use engine::compiling_engine;
pub use engine::{Instrumentation, MAX_FRAMES, WASMTIME_VERSION, engine, engine_with_stack};
pub use entry_file::EntryFile;
pub use guest_crate::{build_guest_crate, build_guest_examples, build_module};
pub use hash::hash_until;
pub use imports::{ImportVerdict, NN_VERSION, judge_import};
pub use interpreter::{WIT, host_functions};
pub use takes::AcceptedKind;
pub use task::COMPILE_COMMAND;
pub use tidy::{FileCount, clear_compiled, compiled};
pub(crate) use tidy::{clear_folder, measure_folder};
pub use toolchain::describe_toolchain;
pub(crate) use toolchain::in_path;
pub use wit_text::describe_function;

/// A complete error message for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

impl CompileError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
