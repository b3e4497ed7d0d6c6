//! The optional features of this build.

/// Whether this build can run models.
pub const HAS_INFERENCE: bool = cfg!(feature = "inference");
/// Whether this build can run models on NVIDIA GPUs.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");
