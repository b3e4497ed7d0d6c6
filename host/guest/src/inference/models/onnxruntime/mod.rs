//! The backend `onnxruntime`: ONNX Runtime, a library on the machine that is opened when the worker starts.
//! The library is not a part of Sandmill.
//!
//! - `library`: opens the library before the wall is built, because a process cannot map code
//!   behind the wall. Opening starts no thread: a thread that exists before the wall would stay
//!   outside of it;
//! - `session`: a loaded model; `tensor`: converts tensors; `explain`: translates errors.
//!
//! Imports modules of the parent folder, and `model`.

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
