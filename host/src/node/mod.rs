//! What looks at this machine for a job, and holds what belongs to the job here. Imports everything below, never
//! `engine`, `report` or `cli`.
//!
//! `staging` brings what lies in stores, and takes results there; `real_paths` resolves the paths that a job names.
//! `models` looks at the job's models (`model_digests` at all that they are made of), and puts single files where workers
//! find them; `backends` finds and tries out what computes with them. `gpus` takes the GPUs that no other job has, and
//! `kernels` makes them ready for models. `setup` says what planner and workers are told, and `looks` what the planner
//! looks into. `room` starts workers where the machine has places for them, and `processor_time` counts what killed
//! workers used.

mod backends;
mod error;
mod gpus;
mod kernels;
mod looks;
mod model_digests;
mod models;
mod options;
mod processor_time;
mod real_paths;
mod room;
mod setup;
mod staging;

pub(crate) use backends::{find_onnxruntime, weigh_models};
pub use error::NodeError;
pub(crate) use gpus::Gpus;
pub(crate) use looks::LonePlanner;
pub use looks::Looks;
pub use model_digests::{ModelDigests, model_digests};
pub use models::{ModelError, give_models};
pub(crate) use models::{Seen, look, places, stage as stage_models};
pub use options::NodeOptions;
pub(crate) use processor_time::ProcessorTime;
pub(crate) use real_paths::RealPaths;
pub use real_paths::with_real_paths;
pub(crate) use room::{Room, Spawned};
pub use setup::plan_request;
pub(crate) use setup::{SetupTemplate, monitor};
pub(crate) use staging::wait_for;
pub use staging::{put_results, stage};
