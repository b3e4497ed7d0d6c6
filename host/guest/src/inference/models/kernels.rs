//! Compiles the kernels (GPU code) that tract needs before it can use a GPU.
//!
//! Compiling takes minutes, writes into a folder whose content later runs unchecked, and starts all programs
//! that CUDA's compiler needs. So a process without access to the job compiles once, and workers can only
//! read the folder.

use crate::wall;
use ::tract_cuda::utils::ensure_cuda_runtime_dependencies;
use ::tract_cuda::with_cuda_stream;
use std::io;
use std::panic;

/// Why the kernels that tract needs on a GPU cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileKernelsError {
    /// `wall::enter` failed.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// An error of tract.
    #[error("{0:#}")]
    Tract(anyhow::Error),
    /// The text of a panic, with which tract reports that the GPU itself cannot be used.
    #[error("{0}")]
    NoGpu(String),
}

/// Compiles the missing kernels for the GPU that this process sees, into tract's folder below
/// `XDG_CACHE_HOME`. Omits kernels that tract compiles only when a model first needs them (Gated
/// DeltaNet): workers cannot use these kernels. An error says why tract cannot use the GPU. The
/// calling process must do nothing else.
pub fn serve_kernels() -> Result<(), CompileKernelsError> {
    // This call makes the process end with its parent, the leader, which holds the GPU.
    wall::enter()?;
    ensure_cuda_runtime_dependencies("CUDA cannot be used").map_err(CompileKernelsError::Tract)?;
    // tract reports an unusable GPU by a panic. The empty hook keeps Rust from printing the panic;
    // we report it once.
    panic::set_hook(Box::new(|_| {}));
    match panic::catch_unwind(|| with_cuda_stream(|_| Ok(()))) {
        Ok(result) => result.map_err(CompileKernelsError::Tract),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.unwrap_or_else(|| "the GPU cannot be used".to_owned());
            Err(CompileKernelsError::NoGpu(text))
        }
    }
}
