//! Computing with models, on the host's side: what a guest asks for by `wasi:nn` is done here, in the
//! worker process and behind its wall.
//!
//! - `backend`: what every backend takes, gives and is;
//! - `error`: why something is refused, in the words of `wasi:nn`.
//!
//! Knows nothing of guests or wasmtime (`sandbox` does that). Imports `model` alone.

mod backend;
mod error;

pub use backend::{
    Dimension, ElementType, Facts, Loaded, OwnedTensor, Port, TensorType, TensorView,
};
pub use error::{ErrorCode, InferenceError};
