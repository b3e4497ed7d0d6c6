//! The library on NVIDIA's GPUs.

use super::explain::Trouble;
use crate::model::ByteSize;
use ort::environment::Environment;
use ort::ep::{self, ArenaExtendStrategy, ExecutionProvider as _};
use ort::session::Session;
use ort::session::builder::SessionBuilder;

/// Whether the library was built for them.
pub(super) fn is_there() -> bool {
    ep::CUDA::is_available().unwrap_or(false)
}

/// Loads what it needs for them.
pub(super) fn load(environment: &Environment) -> Result<(), ort::Error> {
    let mut builder = Session::builder(environment)?;
    ep::CUDA::default().register(&mut builder)
}

/// Has a session run there, with so many bytes of its memory at most. The worker's GPU is the only one that the process sees, so that it is number 0 there.
pub(super) fn place(
    builder: SessionBuilder,
    most: Option<ByteSize>,
) -> Result<SessionBuilder, Trouble> {
    let mut cuda = ep::CUDA::default()
        .with_device_id(0)
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested);
    if let Some(limit) = most {
        cuda = cuda.with_memory_limit(usize::try_from(limit.0).unwrap_or(usize::MAX));
    }
    // It would go to the CPU without a word otherwise.
    Ok(builder.with_execution_providers([cuda.build().error_on_failure()])?)
}
