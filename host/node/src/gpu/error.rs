//! Why there are no GPUs.

use crate::model::Absence;
use std::error::Error;

/// Why the driver cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NvidiaError {
    /// There is no driver.
    #[error("there is no NVIDIA driver")]
    NoDriver,
    /// The driver's library cannot be opened.
    #[error(
        "the NVIDIA driver is installed, but not its library {library} ({why}): install it, have it given to \
         the container, or name its folder in SANDMILL_CUDA_LIBRARIES"
    )]
    NoLibrary {
        /// The library.
        library: &'static str,
        /// The loader's error.
        why: String,
    },
    /// The driver is installed, but not loaded in the kernel.
    #[error("the NVIDIA driver is not loaded")]
    NotLoaded,
    /// The driver returned an error.
    #[error("the NVIDIA driver cannot be queried: {0}")]
    Unanswered(#[source] Box<dyn Error + Send + Sync>),
    /// This build cannot ask a driver.
    #[error(transparent)]
    NotBuilt(#[from] Absence),
}
