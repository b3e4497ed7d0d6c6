//! Why something is refused.

use crate::model::FailureKind;
use std::fmt;
use std::path::Path;

/// Bytes of a message that are kept.
const LONGEST: usize = 2000;

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
    /// The attempt ends, whatever the guest would make of it.
    Ends {
        /// As what it failed.
        kind: FailureKind,
        /// For people.
        message: String,
    },
}

impl InferenceError {
    /// An error that the guest is told. Names in a model and texts of backends may be of any length: what
    /// goes beyond 2,000 bytes is cut.
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused { code, message: cut(message.into()) }
    }

    /// The end of an attempt, with a text that is cut in the same way.
    pub fn ends(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Ends { kind, message: cut(message.into()) }
    }

    /// The backend was refused memory that it needs on the CPU.
    pub(super) fn no_memory(text: &str) -> Self {
        Self::ends(
            FailureKind::OutOfMemory,
            format!(
                "the backend needs more memory than the worker may have; compute less at once, or \
                 raise limits.tensors or limits.models, from which its share follows: {text}"
            ),
        )
    }

    /// The same, without a folder of the host, which is not the guest's to know, but this name.
    pub(super) fn hiding(self, folder: &Path, name: &str) -> Self {
        let path = folder.to_string_lossy();
        match self {
            same if folder.parent().is_none() => same,
            Self::Refused { code, message } => {
                Self::Refused { code, message: message.replace(&*path, name) }
            }
            Self::Ends { kind, message } => {
                Self::Ends { kind, message: message.replace(&*path, name) }
            }
        }
    }

    /// The same, with a word before it of what it is about.
    pub(super) fn about(self, what: &str) -> Self {
        match self {
            Self::Refused { code, message } => Self::refused(code, format!("{what}: {message}")),
            Self::Ends { kind, message } => Self::ends(kind, format!("{what}: {message}")),
        }
    }
}

/// The start of a name that a guest gave: that may be as long as a call allows.
pub(super) fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(200)]
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST));
        message.push_str(" ...");
    }
    message
}

impl fmt::Display for InferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { message, .. } | Self::Ends { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for InferenceError {}
