//! tract on NVIDIA GPUs. tract searches for the CUDA libraries when it loads a model for a GPU.

use super::error::TractCudaError;

/// Checks that the CUDA parts that tract needs are installed. Starts threads of the driver.
#[cfg(feature = "cuda")]
pub(super) fn check() -> Result<(), TractCudaError> {
    /// The prefix that tract puts before its error texts.
    const PREFIX: &str = "CUDA";
    // This call also keeps the crate's entry in tract's list of runtimes: the linker would drop the
    // entry of an unused crate.
    ::tract_cuda::utils::ensure_cuda_runtime_dependencies(PREFIX).map_err(|error| {
        let text = format!("{error:#}");
        // Our own message already mentions CUDA.
        let rest = text.strip_prefix(PREFIX).and_then(|text| text.strip_prefix(": "));
        TractCudaError::NoCuda(rest.unwrap_or(&text).to_owned())
    })
}

/// Always fails: this build has no CUDA.
#[cfg(not(feature = "cuda"))]
pub(super) fn check() -> Result<(), TractCudaError> {
    Err(TractCudaError::NoCuda(crate::model::Feature::Cuda.absence().to_string()))
}

/// Checks that the leader gave this worker compiled kernels, because a worker cannot compile them.
pub(super) fn has_kernels() -> Result<(), TractCudaError> {
    let folder = std::env::var_os("XDG_CACHE_HOME");
    folder.map(drop).ok_or(TractCudaError::NoKernels)
}

/// Whether this text of tract, CUDA, cuBLAS or cuDNN says that the GPU's memory is full.
pub(super) fn is_device_full(text: &str) -> bool {
    ["OUT_OF_MEMORY", "out of memory", "STATUS_ALLOC_FAILED"]
        .iter()
        .any(|words| text.contains(words))
}
