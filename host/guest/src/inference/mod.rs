//! Computing with models, on the host's side: what a guest asks for by `wasi:nn` is done here, in the
//! worker process and behind its wall.
//!
//! - `backend`: what every backend takes, gives and is;
//! - `error`: why something is refused, in the words of `wasi:nn`, or cannot be used;
//! - `memory`: what models cost a worker process;
//! - `registry`: the models of a worker, which of them are loaded, and what was computed; `note`: where it says what
//!   it is at;
//! - `backends`: which backend runs a model, and on which device;
//! - `inputs`: tensors compared with what a model takes, the same for every backend;
//! - `vet`, `weights`, `onnx_facts`: a model looked at before a backend does, its weights, and what its file
//!   says of inputs and outputs;
//! - `guard`: calls of a backend that may panic;
//! - `tract`, `tract_cuda`: the backend that is a part of Sandmill, and its way to a GPU;
//! - `tract_vet`, `trees`: what tract must not be given;
//! - `onnxruntime`: the backend that is a library of the machine;
//! - `probe`: trying backends out in a child process, before workers use them;
//! - `kernels`: what is compiled for a GPU before a job begins, in a process of its own.
//!
//! Knows nothing of guests or wasmtime (`sandbox` does that). Imports `model`, and `wall` for the child.

mod backend;
mod backends;
mod error;
mod guard;
mod inputs;
mod kernels;
mod memory;
mod note;
mod onnx_facts;
mod onnxruntime;
mod probe;
mod registry;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
mod tract;
mod tract_cuda;
mod tract_vet;
mod trees;
mod vet;
mod weights;

pub use backend::{Dimension, ElementType, Facts, OwnedTensor, Port, TensorType, TensorView};
use backend::{Loaded, ModelSource, Wanted};
pub use error::{ErrorCode, InferenceError, KernelsError, NamedError, ProbeError};
pub use guard::quiet_panics;
pub use kernels::{KERNELS_COMMAND, serve_kernels};
pub use memory::{PROCESSORS, bytes_below, has_inference, inference_memory};
pub use note::NotePlace;
pub use onnxruntime::{NO_TELEMETRY, NamedLibrary};
pub use probe::{BackendState, PROBE_COMMAND, Probe, TRACT_VERSION, serve_probe};
pub use registry::{LoadedModel, Models};
