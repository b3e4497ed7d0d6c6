//! Why workers run without the optional cgroups.

use crate::wall::LayerError;

/// Why workers get no cgroups.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCgroups {
    /// The job turned the wall off.
    #[error("os_sandbox is off")]
    Off,
    /// This machine does not allow cgroups, for this reason.
    #[error(transparent)]
    NoPlace(#[from] LayerError),
}
