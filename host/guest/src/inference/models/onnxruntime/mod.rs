//! The backend `onnxruntime`: ONNX Runtime, a library on the machine that is opened when the worker starts.
//! Sandmill is built without it.
//!
//! - `library`: opens it, before the wall is built: behind the wall no code can be mapped, and a thread that
//!   exists before the wall would stay outside of it;
//! - `session`: a loaded model; `tensor`: converts tensors; `explain`: translates errors.
//!
//! Imports what the parent folder shares, and `model`.

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
