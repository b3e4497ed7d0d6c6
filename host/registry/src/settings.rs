//! What errors name as well.

use std::time::Duration;

/// The variable that names the registry's file.
pub(super) const VARIABLE: &str = "SANDMILL_REGISTRY";
/// How long one process waits for another that writes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
