//! What goes wrong with models and tensors.

use std::fmt;

/// The kinds of errors, as `wasi:nn` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// A tensor's name, type, shape or number of elements is wrong.
    InvalidArgument,
    /// The model is no ONNX model.
    InvalidEncoding,
    /// It took too long.
    Timeout,
    /// The computation failed.
    RuntimeError,
    /// The model, or what it is asked for, needs something that is not there.
    UnsupportedOperation,
    /// Beyond a limit of the job.
    TooLarge,
    /// There is no model of that name.
    NotFound,
    /// The job does not allow it, or the worker has no GPU for it.
    Security,
    /// Without a known kind.
    Unknown,
}

/// Its name in `wasi:nn`, such as `invalid-argument`.
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

/// Why a model could not be loaded or run, or why a tensor is not what it was taken for.
///
/// It is displayed as its text, which says what was expected and what came; `?` makes a
/// [`sandmill_guest::Error`](crate::Error) of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: ErrorCode,
    text: String,
}

impl Error {
    /// An error of this kind.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Error { code, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, text)
    }

    /// The kind.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// What was expected and what came, in words.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hosts owe no text.
        if self.text.is_empty() { write!(f, "{}", self.code) } else { f.write_str(&self.text) }
    }
}

impl std::error::Error for Error {}
