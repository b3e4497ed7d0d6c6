//! Settings that error messages name.

use std::time::Duration;

/// The environment variable with the path of the registry's file.
pub(super) const REGISTRY_VARIABLE: &str = "SANDMILL_REGISTRY";
/// How long a process waits while another process writes.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
