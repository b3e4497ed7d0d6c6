//! Runs models on the host. A guest requests inference through `wasi:nn`, and the worker process computes it
//! here, behind its wall.
//!
//! - `facts`: the inputs and outputs of a model, and tensors;
//! - `error`: why a request is refused, in the terms of `wasi:nn`, or why a backend cannot be used;
//! - `memory`: the memory that models need in a worker process;
//! - `note`: the file in which a worker records its current model call;
//! - `named_library`: finds the library of ONNX Runtime;
//! - `probe`: tests backends in a child process before workers use them;
//! - `models`: the models of a worker, and the backends that run them;
//! - `without`: replaces `models` in a build without the feature `inference`.
//!
//! Does not depend on guests or wasmtime: `sandbox` connects inference to them. Imports `model`, and `wall`
//! for the child process that tests backends.

mod error;
mod facts;
mod memory;
#[cfg(feature = "inference")]
mod models;
mod named_library;
mod note;
mod probe;
#[cfg(not(feature = "inference"))]
mod without;

pub use error::{InferenceError, NamedError, NnErrorCode, ProbeError};
pub use facts::{
    ModelDimension, ModelElementType, ModelFacts, ModelPort, NnTensorType, OwnedTensor, TensorView,
};
pub use memory::{PROCESSORS, bytes_below, has_inference, inference_memory};
#[cfg(feature = "cuda")]
pub use models::{CompileKernelsError, serve_kernels};
#[cfg(feature = "inference")]
pub use models::{LoadedModel, LoadedModels, quiet_panics, serve_probe};
pub use named_library::{NO_TELEMETRY, NamedLibrary};
pub use note::NotePlace;
pub use probe::{BackendState, KERNELS_COMMAND, ModelVerdict, PROBE_COMMAND, Probe, TRACT_VERSION};
#[cfg(not(feature = "inference"))]
pub use without::{LoadedModel, LoadedModels, quiet_panics};
