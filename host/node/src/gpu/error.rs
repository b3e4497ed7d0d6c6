//! Why there are no GPUs.

use crate::model::Absence;
use std::error::Error;

/// Why the driver tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum NvidiaError {
    /// There is no driver.
    #[error("there is no NVIDIA driver")]
    NoDriver,
    /// The driver's library cannot be opened.
    #[error(
        "the NVIDIA driver is there, but not its library {library} ({why}): install it, have it given to \
         the container, or name its folder in SANDMILL_CUDA_LIBRARIES"
    )]
    NoLibrary {
        /// The library.
        library: &'static str,
        /// What the loader says.
        why: String,
    },
    /// The driver is there, but not in the kernel.
    #[error("the NVIDIA driver is not loaded")]
    NotLoaded,
    /// The driver refuses.
    #[error("the NVIDIA driver cannot be asked: {0}")]
    Unanswered(#[source] Box<dyn Error + Send + Sync>),
    /// This build asks no driver.
    #[error(transparent)]
    NotBuilt(#[from] Absence),
}
