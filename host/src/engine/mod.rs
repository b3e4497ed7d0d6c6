//! The leader: a pure state machine (`machine`) and the driver that joins it to the world.
//! Imports everything below, never `report` or `cli`.
//!
//! `prepare` makes a job ready to run, `claim` decides who owns a job directory (`reserve` is room for its end) and `taking_up` what
//! becomes of a job that was run before: `identity` names its settings, `differences` compares them, `verify` its inputs.
//! `staging` brings what lies in stores, and takes results there; `models` looks at the job's models
//! (`model_digests` at all that they are made of), and puts single files where workers find them; `gpus` takes the
//! GPUs that no other job has, and `kernels` makes them ready for models. `inferring` says who computes with a model when
//! somebody is late. `driver` runs a `job`, on what `start` starts; `intake` takes the plan, and `looks` what the
//! planner asks for; `commit` is the thread that commits what workers finished.

mod backends;
mod cancel;
mod claim;
mod claim_error;
mod commit;
mod differences;
mod driver;
mod folder_lock;
mod gpus;
mod identity;
mod inferring;
mod intake;
mod job;
mod job_state;
mod kernels;
mod looks;
pub mod machine;
mod model_digests;
mod models;
mod parent;
mod prepare;
mod processor_time;
mod real_paths;
mod reserve;
mod room;
mod setup;
mod staging;
mod start;
mod taking_up;
mod verify;

pub use cancel::Cancel;
pub use claim::Claim;
pub use claim_error::ClaimError;
#[cfg(any(test, fuzzing))]
pub use commit::fuzz_recovery;
pub use driver::run;
pub use folder_lock::is_locked;
pub use job::Job;
pub use job_state::{JobFile, JobState, OutputSize, Standing};
pub use looks::Looks;
pub use model_digests::{ModelDigests, model_digests};
pub use models::{ModelError, give_models};
pub use prepare::{Options, PrepareError, Prepared, prepare};
pub use real_paths::with_real_paths;
pub use setup::{RUNS_AS_ROOT, plan_request};
pub use staging::{put_results, stage};
pub use taking_up::Reused;

/// A job that could not be begun, or whose end could not be written down; for people, complete.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);
