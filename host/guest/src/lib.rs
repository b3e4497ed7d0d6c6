//! Entry scripts: compiled, run and limited, and what computes with models for them.
//!
//! It uses `model`, `files`, `wire`, `wall` and `data`; `node` may use it, and the command line for `check` and `build`.
//!
//! - [`compile`]: from a module or a component to code in the cache;
//! - [`features`]: what this build has;
//! - [`inference`]: models, and what computes with them;
//! - [`python`]: the runtime of entry scripts in Python;
//! - [`sandbox`]: everything that touches a wasmtime store.
//!
//! What other crates have is named here as it is there. Floors, lowest first; a file imports only lower floors or
//! siblings in its own folder:
//!
//! 0. `model`, `opening`, `protocol`, `wall`, `dataset` and `output`, which are other crates or parts of one
//! 1. `features`
//! 2. `compile`, `inference`
//! 3. `sandbox`, `python`

/// Files of this repository that the program carries: a folder, and paths below it. Gives these with the files' texts.
macro_rules! carried {
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
