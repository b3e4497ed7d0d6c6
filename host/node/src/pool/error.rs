//! Why workers run without an option of the wall.

use crate::wall::LayerError;

/// Why workers get no cgroups.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCgroups {
    /// The job turned the wall off.
    #[error("os_sandbox is off")]
    Off,
    /// This machine has no place for them, for the reason that the wall gives.
    #[error(transparent)]
    NoPlace(#[from] LayerError),
}
