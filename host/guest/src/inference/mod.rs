//! Computing with models, on the host's side: what a guest asks for by `wasi:nn` is done here, in the
//! worker process and behind its wall.
//!
//! - `facts`: what a model takes and gives;
//! - `error`: why something is refused, in the words of `wasi:nn`, or cannot be used;
//! - `memory`: what models cost a worker process;
//! - `note`: where a worker says what it is at with a model;
//! - `named_library`: where the library of ONNX Runtime is;
//! - `probe`: having backends tried out in a child process, before workers use them;
//! - `models`: the models of a worker, and the backends that compute with them; `without`, in a build without the
//!   feature `inference`, what stands for them.
//!
//! Knows nothing of guests or wasmtime (`sandbox` does that). Imports `model`, and `wall` for the child.

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

pub use error::{ErrorCode, InferenceError, NamedError, ProbeError};
pub use facts::{Dimension, ElementType, Facts, OwnedTensor, Port, TensorType, TensorView};
pub use memory::{PROCESSORS, bytes_below, has_inference, inference_memory};
#[cfg(feature = "cuda")]
pub use models::{KernelsError, serve_kernels};
#[cfg(feature = "inference")]
pub use models::{LoadedModel, Models, quiet_panics, serve_probe};
pub use named_library::{NO_TELEMETRY, NamedLibrary};
pub use note::NotePlace;
pub use probe::{BackendState, Judged, KERNELS_COMMAND, PROBE_COMMAND, Probe, TRACT_VERSION};
#[cfg(not(feature = "inference"))]
pub use without::{LoadedModel, Models, quiet_panics};
