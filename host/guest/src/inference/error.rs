//! Why something is refused or cannot be used.

use crate::model::FailureKind;
use crate::wall::WaitError;
use std::fmt;
use std::io;
use std::path::PathBuf;

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

/// Why the library of ONNX Runtime that was named cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NamedError {
    /// The path leads to no file.
    #[error("{by} names {}: {source}", path.display())]
    NotThere {
        /// The option or variable that names it.
        by: &'static str,
        /// The path, as it was named.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The folder holds no library.
    #[error(
        "{by} names {}, a folder without libonnxruntime.so; name the library, the folder of the Python \
         package onnxruntime, or one of Python packages (site-packages)",
        path.display()
    )]
    Without {
        /// The option or variable that names it.
        by: &'static str,
        /// The folder, as it was named.
        path: PathBuf,
    },
    /// The folder holds several libraries.
    #[error(
        "{by} names {}, a folder with {} and {}; name one of them",
        path.display(),
        first.display(),
        second.display()
    )]
    Several {
        /// The option or variable that names it.
        by: &'static str,
        /// The folder, as it was named.
        path: PathBuf,
        /// One library.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// The path of the library is no text.
    #[error("{by} names {}: the path {} is not UTF-8", path.display(), file.display())]
    NotUtf8 {
        /// The option or variable that names it.
        by: &'static str,
        /// The path, as it was named.
        path: PathBuf,
        /// The library.
        file: PathBuf,
    },
    /// The library was tried and does not work.
    #[error("{by} names {}: {why}", library.display())]
    Unusable {
        /// The option or variable that names it.
        by: &'static str,
        /// The library.
        library: PathBuf,
        /// What the child says that tried it.
        why: String,
    },
}

/// Why a child that tries a backend gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The child cannot be started.
    #[error("{} cannot be started: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The child did not end in time, or its end is not known.
    #[error(transparent)]
    NoEnd(WaitError),
    /// The child failed: how it ended and what it said, in words.
    #[error("{0}")]
    Failed(String),
    /// The child wrote something else than a result.
    #[error("what the process that tried it said cannot be understood")]
    Unclear,
    /// The backend does not work, in the words of the child.
    #[error("{0}")]
    Problem(String),
}
