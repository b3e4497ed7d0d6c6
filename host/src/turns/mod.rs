//! Machine-wide caps: jobs that run at the same time take turns, so that all their workers together
//! keep to what the operator gives them. Knows nothing of jobs and workers but how much one needs.
//! Imports `model` only.

mod register;

pub use register::{Place, Turns, TurnsError};
