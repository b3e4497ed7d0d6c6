//! The models of a worker, and what computes with them.
//!
//! - `backend`: what every backend takes, gives and is;
//! - `error`: why a backend cannot be used, and what is said of a model;
//! - `registry`: the models of a worker, which of them are loaded, and what was computed;
//! - `backends`: which backend runs a model, and on which device;
//! - `inputs`: tensors compared with what a model takes, the same for every backend;
//! - `vet`, `weights`, `onnx_facts`: a model looked at before a backend does, its weights, and what its file
//!   says of inputs and outputs;
//! - `guard`: calls of a backend that may panic;
//! - `tract`, `tract_cuda`: the backend that is a part of Sandmill, and its way to a GPU;
//! - `tract_vet`, `trees`: what tract must not be given;
//! - `ml`: operators of `ai.onnx.ml` that are given to tract, as it does not have them;
//! - `onnxruntime`: the backend that is a library of the machine;
//! - `trial`: backends tried out, in the process that `probe` starts;
//! - `kernels`: what is compiled for a GPU before a job begins, in a process of its own.

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

use super::error::{ErrorCode, InferenceError};
use super::facts::{
    Dimension, ElementType, Facts, OwnedTensor, Port, Shape, TensorType, TensorView,
};
use super::named_library::NO_TELEMETRY;
use super::note::NotePlace;
use backend::{Loaded, ModelSource, Wanted};

pub use guard::quiet_panics;
#[cfg(feature = "cuda")]
pub use kernels::{KernelsError, serve_kernels};
pub use registry::{LoadedModel, Models};
pub use trial::serve_probe;
