//! Errors of backends, and changes to messages about a model.

use crate::inference::error::InferenceError;
use crate::model::FailureKind;
use crate::wall::WallError;
use ort::sys::ORT_API_VERSION;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

impl InferenceError {
    /// The backend could not allocate memory on the CPU.
    pub(super) fn no_memory(text: &str) -> Self {
        Self::ends(
            FailureKind::OutOfMemory,
            format!(
                "the backend needs more memory than the worker may have; give the model less at a \
                 time, or raise limits.tensors or limits.models, which set that memory: {text}"
            ),
        )
    }

    /// Replaces the path of a host folder by `name`, because the guest must not learn the path.
    pub(super) fn hiding(self, folder: &Path, name: &str) -> Self {
        let path = folder.to_string_lossy();
        match self {
            unchanged if folder.parent().is_none() => unchanged,
            Self::Refused { code, message } => {
                Self::Refused { code, message: message.replace(&*path, name) }
            }
            Self::Ends { kind, message } => {
                Self::Ends { kind, message: message.replace(&*path, name) }
            }
        }
    }

    /// Prefixes the message with its subject.
    pub(super) fn about(self, subject: &str) -> Self {
        match self {
            Self::Refused { code, message } => Self::refused(code, format!("{subject}: {message}")),
            Self::Ends { kind, message } => Self::ends(kind, format!("{subject}: {message}")),
        }
    }
}

/// The first 200 bytes of a name from the guest, which may be as long as a call allows.
pub(super) fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(200)]
}

/// The text of a backend's panic.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Panicked(pub(super) String);

/// Why ONNX Runtime's library cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum LibraryError {
    #[error(
        "its library was not found on this machine; install the Python package onnxruntime and set \
         SANDMILL_ONNXRUNTIME to its folder"
    )]
    NotFound,
    #[error("{} is open in this process, which can hold one ONNX Runtime only", path.display())]
    OtherIsOpen {
        /// The path of the open library.
        path: PathBuf,
    },
    /// The environment does not stop the library from sending telemetry.
    #[error(
        "it would send telemetry from a thread outside of the wall: {variable}={value} must be in the \
         environment of the process that opens it"
    )]
    Telemetry {
        /// The variable that forbids telemetry.
        variable: &'static str,
        /// The value that the variable must have.
        value: &'static str,
    },
    /// The system's loader refuses it.
    #[error("{} cannot be opened as a library: {}", path.display(), loader_message(source))]
    NoLibrary {
        path: PathBuf,
        /// The loader's error.
        source: libloading::Error,
    },
    /// The file is another library.
    #[error("{} is a library, but not ONNX Runtime's", path.display())]
    NotOnnxRuntime { path: PathBuf },
    /// The library does not return its table of functions.
    #[error("{} does not report its interface", path.display())]
    NoInterface { path: PathBuf },
    /// The library lacks functions that we need.
    #[error(
        "{} is ONNX Runtime {version}; version 1.{ORT_API_VERSION} or newer is needed",
        path.display()
    )]
    TooOld { path: PathBuf, version: String },
    /// The `ort` crate cannot open the library.
    #[error(transparent)]
    Load(#[from] ort::LoadDynamicError),
    /// The library's environment cannot be created.
    #[error("{} does not start: {source}", path.display())]
    NoStart {
        path: PathBuf,
        /// The library's error.
        source: ort::Error,
    },
}

/// The loader's message, which is sometimes only in the error's source.
fn loader_message(error: &libloading::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Why tract cannot use a GPU.
#[derive(Debug, thiserror::Error)]
pub(super) enum TractCudaError {
    /// A part of CUDA is missing; the text is tract's.
    #[error("{0}")]
    NoCuda(String),
    /// The leader compiled no kernels for the GPU.
    #[error("its kernels were not compiled for this GPU; a notice of the job says why")]
    NoKernels,
}

/// Why none of the backends that the model may use can use a GPU: one reason each.
#[derive(Debug)]
pub(super) struct NoGpu<'a>(pub(super) Vec<BackendNoGpu<'a>>);

impl fmt::Display for NoGpu<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            reason.fmt(f)?;
        }
        Ok(())
    }
}

/// Why one backend cannot use a GPU.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackendNoGpu<'a> {
    /// The library supports CUDA, but a part of CUDA is missing on this machine.
    #[error("ONNX Runtime cannot use CUDA ({0})")]
    OnnxRuntime(ort::Error),
    /// The library does not support CUDA.
    #[error("ONNX Runtime {version} was built without CUDA")]
    WithoutCuda { version: &'a str },
    /// The library cannot be opened.
    #[error("ONNX Runtime is not available ({0})")]
    NoLibrary(&'a LibraryError),
    /// tract cannot use the GPU.
    #[error("tract cannot use CUDA ({0})")]
    Tract(TractCudaError),
}

/// A problem that a child found while it tested a backend.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackendTrialError {
    /// The leader does not use this command line, so a user has called the hidden subcommand.
    #[error("this command is run by sandmill itself")]
    ByHand,
    /// `wall::enter` failed, or the process cannot read its standard input.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// The wall cannot be built.
    #[error(transparent)]
    Wall(#[from] WallError),
    /// The library of ONNX Runtime cannot be opened.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// ONNX Runtime cannot use a GPU.
    #[error(transparent)]
    OnnxRuntimeGpu(#[from] ort::Error),
    /// tract cannot use a GPU.
    #[error(transparent)]
    TractGpu(#[from] TractCudaError),
    /// A model is refused or does not run.
    #[error(transparent)]
    Model(#[from] InferenceError),
    /// The backend computed a wrong result.
    #[error("it computes wrongly: 1.5 and -2 doubled are {outputs}")]
    Wrong {
        /// The tensors that were computed.
        outputs: String,
    },
}
