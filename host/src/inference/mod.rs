//! Computing with models, on the host's side: what a guest asks for by `wasi:nn` is done here, in the
//! worker process and behind its wall.
//!
//! - `backend`: what every backend takes, gives and is;
//! - `error`: why something is refused, in the words of `wasi:nn`;
//! - `memory`: what models cost a worker process;
//! - `registry`: the models of a worker, which of them are loaded, and what was computed;
//! - `backends`: which backend runs a model, and on which device;
//! - `inputs`: tensors compared with what a model takes, the same for every backend;
//! - `vet`, `onnx_facts`: a model looked at before a backend does, and what its file says of inputs and
//!   outputs;
//! - `tract`, `tract_vet`, `tract_cuda`: the backend that is a part of Sandmill, what it must not be given,
//!   and its way to a GPU;
//! - `onnxruntime`: the backend that is a library of the machine.
//!
//! Knows nothing of guests or wasmtime (`sandbox` does that). Imports `model` alone.

mod backend;
mod backends;
mod error;
mod inputs;
mod memory;
mod onnx_facts;
mod onnxruntime;
mod registry;
mod tract;
mod tract_cuda;
mod tract_vet;
mod vet;

pub use backend::{
    Dimension, ElementType, Facts, Loaded, ModelSource, OwnedTensor, Port, TensorType, TensorView,
    Wanted,
};
pub use error::{ErrorCode, InferenceError};
pub use memory::{has_inference, inference_memory};
pub use onnxruntime::Library;
pub use registry::{LoadedModel, Models};
