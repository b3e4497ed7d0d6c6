//! Runs a job on one machine: prepares the job's files, and runs its workers. Talks to the leader only in the
//! messages of `wire`.
//!
//! This crate uses all crates below it except `registry`. Outside of tests, only the crate `sandmill` uses
//! this one, and connects it to a leader.
//!
//! `prepare` finds and checks everything that a job needs, and makes a `job`, which `start` starts.
//! `inspect_inputs` reports the current state of the inputs. The leader requests all three with the messages
//! of `protocol::node`.
//!
//! `staging` downloads objects from stores, and uploads results; `uploads` uploads inputs that only this machine has; `real_paths` resolves the paths that a job
//! names, and `overlap` refuses a job that would read what it writes. `models` checks the job's models
//! (`model_digests` and `model_folder` check their files), and puts single files where workers find them
//! (`single_file`). `backends` finds and tries the inference libraries. `content` identifies the contents of
//! folders, `script_files` finds the files of an entry script for other machines, and `local_inputs` compares the
//! inputs of several machines. `gpus` takes GPUs that no other job has, and `kernels` prepares them for models.
//! `setup` makes the requests for the planner and the workers, and `planner_reads` downloads the objects that the
//! planner asks for.
//!
//! `python` makes a Python or JavaScript script visible to workers, and checks its imports. `trial` runs an
//! entry script on trial, or maps a stream of tables with it (`mapping`).
//!
//! `features` refuses a job that needs a feature which this build lacks.
//!
//! `run` runs a job here: `machine` decides, and `run` does what it decides. `admission` starts workers when
//! the machine has room for them, `object_waits` has the attempts whose objects are fetched first,
//! `fetched_spill` is what fetches copies of the planner's files, `metering` measures what attempts use, and
//! `hang_report` reports the model call in which a worker hangs.

mod admission;
mod backends;
mod content;
mod error;
mod features;
mod fetched_spill;
pub mod gpu;
mod gpus;
mod hang_report;
mod inspect_inputs;
mod job;
mod kernels;
mod local_inputs;
pub mod machine;
pub mod machine_slots;
pub mod mapping;
mod metering;
mod model_digests;
mod model_error;
mod model_folder;
mod models;
mod object_waits;
mod options;
mod overlap;
pub mod perf;
mod planner_reads;
pub mod pool;
mod prepare;
pub mod python;
mod real_paths;
mod run;
mod script_files;
mod setup;
mod shared_files;
mod single_file;
mod staging;
mod start;
pub mod trial;
mod trial_results;
mod trial_steps;
mod upload_error;
mod uploaded;
mod uploads;
pub mod worker;

use sandmill_data::{dataset, output, typed_output};
use sandmill_files::{self as files, opening};
use sandmill_guest_host::{compile, inference, python as runtimes, sandbox};
use sandmill_model as model;
use sandmill_spec as spec;
use sandmill_store as store;
use sandmill_wall as wall;
use sandmill_wire::{self as protocol, cancel};

pub use error::NodeError;
pub use features::{NotBuilt, has};
pub use fetched_spill::{
    FetchSpill, SpillArrival, SpillCopies, SpillFailure, local_name, local_names,
};
pub use job::{NodeJob, NodeRole};
pub use model_digests::{ModelDigests, model_digests};
pub use model_error::ModelError;
pub use models::give_models;
pub use options::NodeOptions;
pub use planner_reads::PlannerReads;
pub use prepare::{find_script, prepare};
pub use python::PythonError;
pub use real_paths::with_real_paths;
pub use run::RunningJob;
pub use setup::plan_request;
pub use staging::{Staged, job_objects, objects_folder, objects_of_job, stage, upload_results};
pub use upload_error::UploadError;
pub use uploads::upload_data;
