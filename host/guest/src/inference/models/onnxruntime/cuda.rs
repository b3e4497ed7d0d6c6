//! ONNX Runtime on NVIDIA GPUs.

use super::explain::OnnxRuntimeFailure;
use crate::model::ByteSize;
use ort::environment::Environment;
use ort::ep::{self, ArenaExtendStrategy, ExecutionProvider as _};
use ort::session::Session;
use ort::session::builder::SessionBuilder;

/// Whether the library was built with CUDA.
pub(super) fn is_available() -> bool {
    ep::CUDA::is_available().unwrap_or(false)
}

/// Loads the library's CUDA dependencies.
pub(super) fn load(environment: &Environment) -> Result<(), ort::Error> {
    let mut builder = Session::builder(environment)?;
    ep::CUDA::default().register(&mut builder)
}

/// Makes a session run on the GPU, with a limit on GPU memory. The process sees only the worker's GPU, so the
/// device id is 0.
pub(super) fn use_gpu(
    builder: SessionBuilder,
    memory_limit: Option<ByteSize>,
) -> Result<SessionBuilder, OnnxRuntimeFailure> {
    let mut cuda = ep::CUDA::default()
        .with_device_id(0)
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested);
    if let Some(limit) = memory_limit {
        cuda = cuda.with_memory_limit(usize::try_from(limit.0).unwrap_or(usize::MAX));
    }
    // Without this, the session would silently fall back to the CPU.
    Ok(builder.with_execution_providers([cuda.build().error_on_failure()])?)
}
