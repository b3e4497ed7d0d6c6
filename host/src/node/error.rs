//! Why a job cannot run on this machine, for people.

use super::models::ModelError;
use crate::dataset::DatasetError;
use crate::spec::SpecErrors;
use crate::store::StoreError;
use std::io;
use std::path::PathBuf;

/// Why this machine cannot do what a job needs.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// An input is not there, or is not what it should be.
    #[error(transparent)]
    Input(#[from] DatasetError),
    /// An input lies in a store, and cannot be had from there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operator's policy does not allow it.
    #[error(transparent)]
    Policy(#[from] SpecErrors),
    /// A path cannot be resolved.
    #[error("cannot find {}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A model is not there, or not the one that is meant.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// What is to compute with the job's models is not there.
    #[error("{0}")]
    Backend(String),
}
