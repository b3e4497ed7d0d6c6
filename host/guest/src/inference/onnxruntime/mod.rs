//! The backend `onnxruntime`: ONNX Runtime, a library that the machine must have and that is opened when
//! the worker starts. Sandmill is built without it.
//!
//! - `find`: where the leader looks for it;
//! - `library`: opening it, before the wall: no code can be mapped behind it, and a thread that was there
//!   before would stay outside;
//! - `session`: a model that it loaded; `tensor`: tensors in its words; `explain`: its errors in ours.
//!
//! Imports what the folder above shares, and `model`.

mod explain;
mod find;
mod library;
mod session;
mod tensor;
#[cfg(test)]
mod tests;

pub use find::NamedLibrary;
pub(super) use library::Library;
pub use library::NO_TELEMETRY;
