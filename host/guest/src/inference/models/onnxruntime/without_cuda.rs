//! Replaces `cuda` in a build without CUDA. No GPU is used, even if the library supports CUDA.

use super::explain::OnnxRuntimeFailure;
use crate::inference::models::{InferenceError, NnErrorCode};
use crate::model::{ByteSize, Feature};
use ort::environment::Environment;
use ort::session::builder::SessionBuilder;

/// Whether GPUs can be used.
pub(super) fn is_available() -> bool {
    false
}

/// Always fails.
pub(super) fn load(_environment: &Environment) -> Result<(), ort::Error> {
    Err(ort::Error::new(Feature::Cuda.absence().to_string()))
}

/// Always fails.
pub(super) fn use_gpu(
    _builder: SessionBuilder,
    _memory_limit: Option<ByteSize>,
) -> Result<SessionBuilder, OnnxRuntimeFailure> {
    let why = Feature::Cuda.absence().to_string();
    Err(InferenceError::refused(NnErrorCode::UnsupportedOperation, why).into())
}
