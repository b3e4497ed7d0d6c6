//! Why the NVIDIA driver cannot be used.

use crate::model::Absence;
use std::error::Error;

/// Why the NVIDIA driver cannot be used. The text is shown to users.
#[derive(Debug, thiserror::Error)]
pub enum NvidiaError {
    /// There is no driver.
    #[error("there is no NVIDIA driver")]
    NoDriver,
    /// The driver's library cannot be opened.
    #[error(
        "the NVIDIA driver is installed, but its library {library} cannot be opened ({why}): install the \
         library, mount it into the container, or name its folder in SANDMILL_CUDA_LIBRARIES"
    )]
    NoLibrary {
        /// The library's file name.
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
    /// This build has no code that queries the driver.
    #[error(transparent)]
    NotBuilt(#[from] Absence),
}
