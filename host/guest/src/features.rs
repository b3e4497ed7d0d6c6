//! What this build has of the parts that may be left out.

/// Whether it can compute with models.
pub const HAS_INFERENCE: bool = cfg!(feature = "inference");
/// Whether it can do so on NVIDIA's GPUs.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");
