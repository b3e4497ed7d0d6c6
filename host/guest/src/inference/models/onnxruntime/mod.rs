//! The backend `onnxruntime`: ONNX Runtime, a library that the machine must have and that is opened when
//! the worker starts. Sandmill is built without it.
//!
//! - `library`: opening it, before the wall: no code can be mapped behind it, and a thread that was there
//!   before would stay outside;
//! - `session`: a model that it loaded; `tensor`: tensors in its words; `explain`: its errors in ours.
//!
//! Imports what the folder above shares, and `model`.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "without_cuda.rs"]
mod cuda;
mod explain;
mod library;
mod session;
mod tensor;
#[cfg(test)]
mod tests;

pub(super) use library::Library;
