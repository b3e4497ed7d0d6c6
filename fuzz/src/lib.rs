//! The host's folders that are fuzzed, compiled anew for that.
#![expect(dead_code, unused_imports, reason = "the rest of the host is not here to use them")]

mod engine;
#[path = "../../host/src/fuzzing/mod.rs"]
mod fuzzing;
#[path = "../../host/src/journal/mod.rs"]
mod journal;
mod worker;

use sandmill_data::{dataset, output};
use sandmill_files::opening;
use sandmill_model::{self as model, fail_point};
use sandmill_spec as spec;
use sandmill_wire as protocol;

pub use fuzzing::{columns, frames, jobs, recovery, results, rows, stores, tables};
