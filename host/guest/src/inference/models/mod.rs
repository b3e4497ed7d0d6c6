//! The models of a worker, and the backends that run them.
//!
//! - `backend`: the interface of every backend;
//! - `error`: why a backend cannot be used, and changes to messages about a model;
//! - `registry`: the models of a worker, which of them are loaded, and statistics;
//! - `backends`: chooses the backend and the device of a model;
//! - `inputs`: checks input tensors against the model, the same way for every backend;
//! - `vet`, `weights`, `onnx_facts`: check a model before a backend loads it, check its weights, and read its
//!   inputs and outputs;
//! - `guard`: calls to a backend that may panic;
//! - `tract`, `tract_cuda`: tract, the backend that is a part of Sandmill, and its use of GPUs;
//! - `tract_vet`, `trees`: refuse models that tract cannot run;
//! - `ml`: operators of `ai.onnx.ml` that tract lacks;
//! - `onnxruntime`: ONNX Runtime, the backend that is a library of the machine;
//! - `trial`: tests backends, in the child process that `probe` starts;
//! - `kernels`: compiles code for a GPU before a job begins, in a separate process.

mod backend;
mod backends;
mod error;
mod guard;
mod inputs;
#[cfg(feature = "cuda")]
mod kernels;
mod ml;
mod onnx_facts;
mod onnxruntime;
mod registry;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
mod tract;
mod tract_cuda;
mod tract_vet;
mod trees;
mod trial;
mod vet;
mod weights;

use super::error::{InferenceError, NnErrorCode};
use super::facts::{
    ModelDimension, ModelElementType, ModelFacts, ModelPort, ModelShape, NnTensorType, OwnedTensor,
    TensorView,
};
use super::named_library::NO_TELEMETRY;
use super::note::NotePlace;
use backend::{BackendModel, LoadSettings, ModelSource};

pub use guard::quiet_panics;
#[cfg(feature = "cuda")]
pub use kernels::{CompileKernelsError, serve_kernels};
pub use registry::{LoadedModel, LoadedModels};
pub use trial::serve_probe;
