//! Errors of models and tensors.

use std::fmt;

/// The kinds of errors. `wasi:nn` defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// A tensor's name, type, shape or number of elements is wrong.
    InvalidArgument,
    /// The file is not an ONNX model.
    InvalidEncoding,
    /// The computation took too long.
    Timeout,
    /// The computation failed.
    RuntimeError,
    /// The model or the call needs something that is not available.
    UnsupportedOperation,
    /// A limit of the job is exceeded.
    TooLarge,
    /// There is no model of that name.
    NotFound,
    /// The job does not allow the model, or the worker has no GPU for it.
    Security,
    /// The kind is unknown.
    Unknown,
}

/// Writes the name in `wasi:nn`, such as `invalid-argument`.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidArgument => "invalid-argument",
            Self::InvalidEncoding => "invalid-encoding",
            Self::Timeout => "timeout",
            Self::RuntimeError => "runtime-error",
            Self::UnsupportedOperation => "unsupported-operation",
            Self::TooLarge => "too-large",
            Self::NotFound => "not-found",
            Self::Security => "security",
            Self::Unknown => "unknown",
        })
    }
}

/// Why a model could not be loaded or run, or why a tensor does not have the expected type or shape.
///
/// The text says what was expected and what was found. `?` converts this error to a
/// [`sandmill_guest::Error`](crate::Error).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NnError {
    code: ErrorCode,
    text: String,
}

impl NnError {
    /// An error of this kind.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        NnError { code, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, text)
    }

    /// The kind of error.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The text: what was expected and what was found.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A host may leave the text empty.
        if self.text.is_empty() { write!(f, "{}", self.code) } else { f.write_str(&self.text) }
    }
}

impl std::error::Error for NnError {}
