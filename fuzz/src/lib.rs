//! The host's folders that are fuzzed, compiled anew for that.
#![expect(dead_code, unused_imports, reason = "the rest of the host is not here to use them")]

#[path = "../../host/src/fuzzing/mod.rs"]
mod fuzzing;
mod worker;

use sandmill_data::{dataset, output};
use sandmill_files::opening;
use sandmill_leader as engine;
use sandmill_model as model;
use sandmill_spec as spec;
use sandmill_wire as protocol;

pub use fuzzing::{columns, frames, jobs, recovery, results, rows, stores, tables};
