//! What is wrong with arguments, and with what is tried out.

use crate::model::{OsSandbox, REGISTERED_NAME_EXPECTED};
use serde::{Deserialize, Serialize};

/// Why the value of an argument is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    /// No name of something registered.
    #[error("expected {REGISTERED_NAME_EXPECTED}")]
    Name,
    /// A description that is too long.
    #[error("expected at most {limit} bytes")]
    Long {
        /// The most that it may have.
        limit: usize,
    },
    /// No mode of the wall.
    #[error("expected {}", OsSandbox::ALL.map(OsSandbox::name).join(", "))]
    Mode,
    /// No setting.
    #[error("write KEY=VALUE, as in mini_batch_size=100")]
    Setting,
    /// No number of workers.
    #[error("expected a whole number of workers of at least 1")]
    Workers,
    /// No number of GPUs.
    #[error("expected a whole number of GPUs, 0 for none")]
    Gpus,
    /// No name with a value.
    #[error("expected NAME=VALUE")]
    Pair,
}

/// Why a component cannot be loaded, in the words of the process that tried it.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotLoaded(pub(super) String);
