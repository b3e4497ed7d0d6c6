//! What a query may take.

use std::time::Duration;

/// Bytes that SQLite may hold, for sorting and grouping too: it writes no file.
pub(super) const MEMORY: u64 = 512 << 20;
/// Bytes of the largest value.
pub(super) const VALUE: u64 = 128 << 20;
/// How long the first run of a query may take; a worker's run of it has the job's own time-out.
pub(super) const PATIENCE: Duration = Duration::from_secs(240);
