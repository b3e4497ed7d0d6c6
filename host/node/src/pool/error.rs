//! Why workers go without something.

use crate::wall::LayerError;

/// Why workers get no cgroups.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCgroups {
    /// The job asks for no wall.
    #[error("os_sandbox is off")]
    Off,
    /// There is no place for them on this machine, for the reason that the wall gives.
    #[error(transparent)]
    NoPlace(#[from] LayerError),
}
