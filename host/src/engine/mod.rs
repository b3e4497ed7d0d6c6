//! The leader: a pure state machine (`machine`) and the driver that joins it to the world.
//! Imports everything below, never `report` or `cli`.
//!
//! `prepare` makes a job ready to run, `claim` decides who owns a job directory, `commit` is the
//! thread that commits what workers finished.

mod cancel;
mod claim;
mod claim_error;
mod commit;
mod commit_group;
mod commit_queue;
mod driver;
pub mod machine;
mod prepare;
mod setup;

pub use cancel::Cancel;
pub use claim::{Claim, claim};
pub use claim_error::ClaimError;
pub use driver::{Job, run};
pub use prepare::{Options, PrepareError, prepare};
pub use setup::plan_request;

/// A job that could not be begun, or whose end could not be written down; for people, complete.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);
