//! The optional features of this build.

/// Whether this build can compute with models.
pub const HAS_INFERENCE: bool = cfg!(feature = "inference");
/// Whether it can compute with models on NVIDIA GPUs.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");
