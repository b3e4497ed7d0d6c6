//! Errors about arguments.

use crate::model::{OsSandbox, PythonRuntime, REGISTERED_NAME_EXPECTED};

/// Why the value of an argument is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    /// An invalid name for a registered dataset or model.
    #[error("expected {REGISTERED_NAME_EXPECTED}")]
    Name,
    /// A description that is too long.
    #[error("expected at most {limit} bytes")]
    Long {
        /// The maximum number of bytes that it may have.
        limit: usize,
    },
    /// An unknown sandbox mode.
    #[error("expected {}", OsSandbox::ALL.map(OsSandbox::name).join(", "))]
    Mode,
    /// Not of the form KEY=VALUE.
    #[error("write KEY=VALUE, as in mini_batch_size=100")]
    Setting,
    #[error("expected a whole number of workers of at least 1")]
    Workers,
    #[error("expected a whole number of GPUs, 0 for none")]
    Gpus,
    /// An unknown runtime.
    #[error("expected one of {}", PythonRuntime::ALL.map(PythonRuntime::name).join(", "))]
    Runtime,
    /// Not of the form NAME=VALUE.
    #[error("expected NAME=VALUE")]
    Pair,
}
