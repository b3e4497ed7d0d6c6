//! What is wrong with arguments, and with what is tried out.

use crate::model::{OsSandbox, REGISTERED_NAME_EXPECTED};

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
