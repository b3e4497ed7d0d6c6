//! tract on NVIDIA's GPUs. The libraries of CUDA are looked for when a model is to be loaded there.

use super::error::TractCudaError;

/// Whether what tract needs of CUDA is here, else why not. Starts threads of the driver.
#[cfg(feature = "cuda")]
pub(super) fn check() -> Result<(), TractCudaError> {
    /// What tract begins its reasons with.
    const ABOUT: &str = "CUDA";
    // Naming the crate also keeps its entry in tract's list of runtimes from being dropped by the linker.
    ::tract_cuda::utils::ensure_cuda_runtime_dependencies(ABOUT).map_err(|error| {
        let text = format!("{error:#}");
        // Whoever tells it has said so.
        let rest = text.strip_prefix(ABOUT).and_then(|text| text.strip_prefix(": "));
        TractCudaError::NoCuda(rest.unwrap_or(&text).to_owned())
    })
}

/// Nothing of CUDA is in this build.
#[cfg(not(feature = "cuda"))]
pub(super) fn check() -> Result<(), TractCudaError> {
    Err(TractCudaError::NoCuda(crate::model::Feature::Cuda.absence().to_string()))
}

/// Whether this worker was given the kernels that the leader had compiled, as it cannot compile them itself.
pub(super) fn has_kernels() -> Result<(), TractCudaError> {
    let folder = std::env::var_os("XDG_CACHE_HOME");
    folder.map(drop).ok_or(TractCudaError::NoKernels)
}

/// Whether this text of tract, CUDA, cuBLAS or cuDNN says that the memory of the GPU is full.
pub(super) fn device_full(text: &str) -> bool {
    ["OUT_OF_MEMORY", "out of memory", "STATUS_ALLOC_FAILED"].iter().any(|says| text.contains(says))
}
