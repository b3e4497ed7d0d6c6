//! Settings that error messages name, too.

use std::time::Duration;

/// The environment variable with the path of the registry's file.
pub(super) const VARIABLE: &str = "SANDMILL_REGISTRY";
/// How long a process waits while another one writes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
