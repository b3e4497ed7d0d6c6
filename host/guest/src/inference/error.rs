//! Errors: why a model is refused, or a backend cannot be used.

use crate::model::FailureKind;
use crate::wall::WaitError;
use std::fmt;
use std::io;
use std::path::PathBuf;

const MAX_MESSAGE_BYTES: usize = 2000;

/// The error codes of `wasi:nn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NnErrorCode {
    /// The name, type, shape or bytes of a tensor are wrong.
    InvalidArgument,
    /// The bytes are not an ONNX model, or the guest asked for another encoding.
    InvalidEncoding,
    /// The computation failed.
    RuntimeError,
    /// The model uses something that the backend does not have.
    UnsupportedOperation,
    /// A limit is exceeded.
    TooLarge,
    /// The job has no model of that name.
    NotFound,
    /// The job does not allow the request, or the worker has no GPU for it.
    Security,
}

/// An error while a model is loaded or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InferenceError {
    /// An error that the guest receives and may handle.
    Refused {
        /// The kind.
        code: NnErrorCode,
        /// For the user: what was expected, and what was found.
        message: String,
    },
    /// The attempt ends; the guest cannot handle the error.
    Ends {
        /// The kind of the failure.
        kind: FailureKind,
        /// For the user.
        message: String,
    },
}

impl InferenceError {
    /// An error for the guest. Names in a model and messages of backends may have any length, so the text is
    /// cut at 2,000 bytes.
    pub fn refused(code: NnErrorCode, message: impl Into<String>) -> Self {
        Self::Refused { code, message: cut(message.into()) }
    }

    /// An error that ends the attempt. The text is cut at 2,000 bytes.
    pub fn ends(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Ends { kind, message: cut(message.into()) }
    }
}

fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
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

/// Why the ONNX Runtime library that the user named cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NamedError {
    /// The path does not exist.
    #[error("{by} names {}: {source}", path.display())]
    NotThere {
        /// The option or variable that names the path.
        by: &'static str,
        /// The path, as the user wrote it.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The folder has no library.
    #[error(
        "{by} names {}, a folder without libonnxruntime.so; name the library, the folder of the Python \
         package onnxruntime, or a folder of Python packages (site-packages)",
        path.display()
    )]
    Without {
        /// The option or variable that names the path.
        by: &'static str,
        /// The folder, as the user wrote it.
        path: PathBuf,
    },
    /// The folder has several libraries.
    #[error(
        "{by} names {}, a folder with {} and {}; name one of them",
        path.display(),
        first.display(),
        second.display()
    )]
    Several {
        /// The option or variable that names the path.
        by: &'static str,
        /// The folder, as the user wrote it.
        path: PathBuf,
        /// One library.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// The library's path is not UTF-8.
    #[error("{by} names {}: the path {} is not UTF-8", path.display(), file.display())]
    NotUtf8 {
        /// The option or variable that names the path.
        by: &'static str,
        /// The path, as the user wrote it.
        path: PathBuf,
        /// The library.
        file: PathBuf,
    },
    /// The library was tested and does not work.
    #[error("{by} names {}: {why}", library.display())]
    Unusable {
        /// The option or variable that names the path.
        by: &'static str,
        /// The library.
        library: PathBuf,
        /// The message of the child that tested it.
        why: String,
    },
}

/// Why a child process that tests a backend gave no result.
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
    /// The child did not end in time, or its exit status is unknown.
    #[error(transparent)]
    NoEnd(WaitError),
    /// The child failed. The text says how it ended, and what it printed.
    #[error("{0}")]
    Failed(String),
    /// The child did not write a valid result.
    #[error("the output of the process that tested it is not valid")]
    Unclear,
    /// The backend or model does not work; the text is the child's message.
    #[error("{0}")]
    Problem(String),
}
