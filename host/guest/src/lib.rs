//! Entry scripts: compiling, running and limiting them, and inference for them.
//!
//! This crate uses the crates `model`, `files`, `wire`, `wall` and `data`. Only the crate `node` and the
//! command line (for `check` and `build`) may use this crate.
//!
//! - [`compile`]: turns a module or component into code in the cache;
//! - [`features`]: the optional features of this build;
//! - [`inference`]: models, and the backends that run them;
//! - [`python`]: the runtimes of entry scripts in Python and JavaScript;
//! - [`sandbox`]: all code that uses a wasmtime store.
//!
//! Items of other crates are reexported under their own names. A file imports only lower layers, or siblings
//! in its own folder. The layers, lowest first:
//!
//! 0. `model`, `opening`, `protocol`, `wall`, `dataset` and `output`, which are other crates or parts of them
//! 1. `features`
//! 2. `compile`, `inference`
//! 3. `sandbox`, `python`

/// Embeds files of this repository. The arguments are a folder and paths in that folder. Returns pairs of a
/// path and the file's text.
macro_rules! embedded {
    ($root:literal: $($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $root, "/", $name)),
        )),*]
    };
}

pub mod compile;
pub mod features;
pub mod inference;
pub mod python;
pub mod sandbox;

use sandmill_data::{dataset, output};
use sandmill_files::opening;
use sandmill_model as model;
use sandmill_wall as wall;
use sandmill_wire as protocol;
