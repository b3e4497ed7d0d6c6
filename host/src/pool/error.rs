//! Why workers go without something.

/// Why workers get no cgroups.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoCgroups {
    /// The job asks for no wall.
    #[error("os_sandbox is off")]
    Off,
    /// There is no place for them on this machine, for the reason that the wall gives.
    #[error("{0}")]
    NoPlace(String),
}
