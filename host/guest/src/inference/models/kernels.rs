//! What tract compiles for a GPU before it can compute there.
//!
//! That takes minutes, writes into a folder whose content is then run without a look, and starts whatever
//! CUDA's compiler needs: it is done once, by a process that has nothing of a job's, and workers only read
//! the folder.

use crate::wall;
use ::tract_cuda::utils::ensure_cuda_runtime_dependencies;
use ::tract_cuda::with_cuda_stream;
use std::io;
use std::panic;

/// Why the kernels that tract needs on a GPU cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum KernelsError {
    /// The process cannot do what each child does first.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// What tract says.
    #[error("{0:#}")]
    Tract(anyhow::Error),
    /// The text of a panic: how tract says that the GPU itself cannot be used.
    #[error("{0}")]
    NoGpu(String),
}

/// Compiles whatever is not there yet for the GPU that this process sees, into tract's folder below
/// `XDG_CACHE_HOME`: all but what tract compiles when a model first needs it (Gated DeltaNet), which workers
/// cannot have. An error says why tract cannot compute there. To be called by a process that does nothing
/// else.
pub fn serve_kernels() -> Result<(), KernelsError> {
    // It ends with the leader, who has the GPU for it.
    wall::enter()?;
    ensure_cuda_runtime_dependencies("CUDA cannot be used").map_err(KernelsError::Tract)?;
    // tract has no way but a panic to say that the GPU itself cannot be used. It is told once, by us.
    panic::set_hook(Box::new(|_| {}));
    match panic::catch_unwind(|| with_cuda_stream(|_| Ok(()))) {
        Ok(made) => made.map_err(KernelsError::Tract),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.unwrap_or_else(|| "the GPU cannot be used".to_owned());
            Err(KernelsError::NoGpu(text))
        }
    }
}
