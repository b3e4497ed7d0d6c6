//! Why something is refused.

use std::fmt;

/// The kinds of errors that `wasi:nn` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// A tensor's name, type, shape or bytes are wrong.
    InvalidArgument,
    /// The bytes are no ONNX model, or another encoding was asked for.
    InvalidEncoding,
    /// The computation failed.
    RuntimeError,
    /// The model uses something that the backend does not have.
    UnsupportedOperation,
    /// Beyond a limit.
    TooLarge,
    /// The job has no model of that name.
    NotFound,
    /// The job does not allow it, or the worker has no GPU for it.
    Security,
}

/// What went wrong when a model was loaded or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InferenceError {
    /// Told to the guest, which may go on.
    Refused {
        /// The kind.
        code: ErrorCode,
        /// For people: what was expected, and what was found.
        message: String,
    },
    /// The memory of the GPU is full. The attempt ends, whatever the guest makes of it.
    DeviceFull(String),
}

impl InferenceError {
    /// An error that the guest is told.
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into() }
    }
}

impl fmt::Display for InferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { message, .. } | Self::DeviceFull(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for InferenceError {}
