//! The limits of a query.

use std::time::Duration;

/// The maximum memory of SQLite, in bytes. It includes memory for sorting and grouping, because SQLite may
/// not write temporary files.
pub(super) const MAX_MEMORY: u64 = 512 << 20;
/// The maximum size of a value, in bytes.
pub(super) const MAX_VALUE: u64 = 128 << 20;
/// The maximum duration of a survey, the first run of a query. The job's own timeout limits the second run,
/// in a worker.
pub(super) const MAX_SURVEY_TIME: Duration = Duration::from_secs(240);
