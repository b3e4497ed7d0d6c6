//! Sandmill runs entry scripts, compiled to WebAssembly components, over large inputs in parallel.
//!
//! The command line is the first user of this library. Other programs use it like this:
//!
//! ```no_run
//! use sandmill::{Cancel, Event, EventKind, Options, Prepared};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = sandmill::load("job.yaml".as_ref(), &[])?;
//! // Child processes run the program.
//! let options = Options::new("jobs/mine", "/usr/local/bin/sandmill");
//! let job = match sandmill::prepare(spec, &options, &mut |line| eprintln!("{line}"))? {
//!     Prepared::Job(job) => job,
//!     Prepared::Reused(earlier) => {
//!         println!("nothing changed: {} rows in {}", earlier.result.rows, earlier.output.display());
//!         return Ok(());
//!     }
//! };
//! let cancel = Cancel::new(); // clone it into another thread to end the job early
//! let mut on_event = |event: &Event| {
//!     if let EventKind::AttemptFinished { location, .. } = &event.kind {
//!         println!("{location}");
//!     }
//! };
//! let result = sandmill::run(*job, &mut on_event, &cancel)?;
//! println!("{}: {} rows", result.status, result.rows);
//! # Ok(())
//! # }
//! ```
//!
//! The names at the top level are the public API. The modules below are not part of the API, and may change.
//! They are public only because the types of the API are in them.
//!
//! The modules form floors, listed here from the lowest. A file imports only from lower floors or from
//! siblings in its own folder (`tests/tests/repository/floors.rs` checks that):
//!
//! 0. `model`, `event`, `files`, `opening`, `protocol`, `cancel`, `wall`, `dataset`, `plan`, `output`, `typed_output`, `spec`, `registry`, `store`, `compile`, `inference`, `sandbox`, `runtimes`, `gpu`, `machine_slots`, `perf`, `pool`, `worker`, `node`, `bus`, `engine`, `journal`, `report` (separate crates, or parts of one)
//! 1. `load`, `nodes`
//! 2. `run`
//! 3. `cli`

#[doc(hidden)]
pub mod cli;
mod load;
mod nodes;
mod run;

use sandmill_bus as bus;
#[doc(hidden)]
pub use sandmill_data::{dataset, output, plan, typed_output};
use sandmill_files::{self as files, opening};
#[doc(hidden)]
pub use sandmill_guest_host::{compile, inference, python as runtimes, sandbox};
#[doc(hidden)]
pub use sandmill_leader::{self as engine, journal};
pub use sandmill_model::{self as model, event};
#[doc(hidden)]
pub use sandmill_node::{self as node, gpu, machine_slots, perf, pool, worker};
#[doc(hidden)]
pub use sandmill_registry as registry;
pub use sandmill_report as report;
pub use sandmill_spec as spec;
#[doc(hidden)]
pub use sandmill_store as store;
#[doc(hidden)]
pub use sandmill_wall as wall;
#[doc(hidden)]
pub use sandmill_wire::{self as protocol, cancel};

pub use cancel::Cancel;
pub use compile::CompileError;
pub use dataset::DatasetError;
pub use engine::{ClaimError, EngineError, JobFile, Reused};
pub use event::{Event, EventKind};
pub use inference::NamedLibrary;
pub use journal::JournalError;
pub use load::{load, load_under};
pub use machine_slots::SlotsError;
pub use model::{JobResult, JobStatus};
pub use node::{ModelError, NodeError, NotBuilt};
pub use run::{Options, PrepareError, Prepared, ReadyJob, prepare, run, upload_results};
pub use sandmill_spec::{Datastores, JobSpec, OperatorPolicy, SpecErrors};
pub use store::StoreError;
pub use wall::WallError;
