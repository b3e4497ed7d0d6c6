//! One machine that runs a job: looks at itself for the job, holds what belongs to the job here, and runs its workers.
//! It knows no leader but by the words of `wire`.
//!
//! It uses all crates below but `registry`; `sandmill` alone uses it, and joins it to a leader.
//!
//! `prepare` finds and checks all that a job needs, and makes a `job` of it, which `start` makes run; `look` tells what
//! the inputs are today. The leader asks for these in the words of `protocol::node`.
//!
//! `staging` brings what lies in stores, and takes results there; `real_paths` resolves the paths that a job names, and
//! `overlap` refuses a job that would read what it writes. `models` looks at the job's models (`model_digests` and `model_folder`
//! at all that they are made of), and puts single files where workers find them; `backends` finds and tries out what computes with
//! them. `content` says what the files of folders are. `gpus` takes the GPUs that no other job has, and `kernels` makes
//! them ready for models. `setup` says what planner and workers are told, and `looks` what the planner looks into.
//!
//! `python` shows a Python script to workers, and looks at its imports; `trial` tries entry scripts out, and has one
//! map a stream of tables (`mapping`).
//!
//! `features` refuses a job that needs what this build has not.
//!
//! `run` runs a job here: `machine` decides, and what it decides is done. `room`
//! starts workers where the machine has places for them, `processor_time` counts what killed workers used, and
//! `inferring` tells which model a worker computes with.

mod backends;
mod content;
mod error;
mod features;
pub mod gpu;
mod gpus;
mod inferring;
mod job;
mod kernels;
mod look;
mod looks;
pub mod machine;
pub mod mapping;
mod model_digests;
mod model_error;
mod model_folder;
mod models;
mod options;
mod overlap;
pub mod perf;
pub mod pool;
mod prepare;
mod processor_time;
pub mod python;
mod real_paths;
mod room;
mod run;
mod setup;
mod single_file;
mod staging;
mod start;
pub mod trial;
mod trial_results;
mod trial_steps;
pub mod turns;
pub mod worker;

use sandmill_data::{dataset, finish, output};
use sandmill_files::{self as files, opening};
use sandmill_guest_host::{compile, inference, python as runtimes, sandbox};
use sandmill_model as model;
use sandmill_spec as spec;
use sandmill_store as store;
use sandmill_wall as wall;
use sandmill_wire::{self as protocol, cancel};

pub use error::NodeError;
pub use features::{NotBuilt, has};
pub use job::NodeJob;
pub use looks::Looks;
pub use model_digests::{ModelDigests, model_digests};
pub use model_error::ModelError;
pub use models::give_models;
pub use options::NodeOptions;
pub use prepare::prepare;
pub use python::PythonError;
pub use real_paths::with_real_paths;
pub use run::Running;
pub use setup::plan_request;
pub use staging::{Staged, objects_folder, put_results, stage};
