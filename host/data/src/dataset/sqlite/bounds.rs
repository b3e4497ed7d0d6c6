//! Limits of a query.

use std::time::Duration;

/// The maximum memory of SQLite in bytes, including sorting and grouping, because it writes no file.
pub(super) const MEMORY: u64 = 512 << 20;
/// The maximum bytes of a value.
pub(super) const VALUE: u64 = 128 << 20;
/// The maximum duration of the first run of a query. A worker's run has the job's own timeout.
pub(super) const PATIENCE: Duration = Duration::from_secs(240);
