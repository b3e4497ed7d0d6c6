//! `limits` as written.

use super::values::at_least;
use crate::keys::{self, MAX_JOB_TIME};
use crate::model::ByteSize;
use crate::scope::{At, Scope};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawLimits {
    pub(crate) memory: Option<At<ByteSize>>,
    pub(crate) stack: Option<At<ByteSize>>,
    pub(crate) fuel: Option<At<u64>>,
    pub(crate) read: Option<At<ByteSize>>,
    pub(crate) results: Option<At<ByteSize>>,
    pub(crate) row: Option<At<ByteSize>>,
    pub(crate) logs: Option<At<ByteSize>>,
    pub(crate) output: Option<At<ByteSize>>,
    pub(crate) files: Option<At<u64>>,
    pub(crate) handles: Option<At<u64>>,
    pub(crate) transfer: Option<At<ByteSize>>,
    pub(crate) models: Option<At<ByteSize>>,
    pub(crate) tensors: Option<At<ByteSize>>,
    pub(crate) mini_batches: Option<At<u64>>,
    pub(crate) reports: Option<At<ByteSize>>,
    pub(crate) failures: Option<At<u64>>,
    pub(crate) job_time: Option<At<Duration>>,
}

/// Reads the group.
pub(crate) fn read(job: &mut Scope<'_>) -> RawLimits {
    let Some(mut limits) = job.group("limits") else { return RawLimits::default() };
    let raw = RawLimits {
        // Less than one page of memory holds no guest at all.
        memory: limits.parsed_by("memory", at_least(64 << 10)),
        stack: limits.parsed_by("stack", |_, text| {
            let range = (64 << 10)..=(64 << 20);
            text.parse().ok().filter(|size: &ByteSize| range.contains(&size.0))
        }),
        fuel: limits.parsed("fuel"),
        read: limits.parsed_by("read", at_least(1)),
        results: limits.parsed_by("results", at_least(1)),
        row: limits.parsed_by("row", at_least(1)),
        logs: limits.parsed_by("logs", at_least(1)),
        output: limits.parsed_by("output", at_least(1)),
        files: limits.parsed("files"),
        handles: limits.parsed("handles"),
        transfer: limits.parsed_by("transfer", at_least(1 << 20)),
        models: limits.parsed_by("models", at_least(1 << 20)),
        tensors: limits.parsed_by("tensors", at_least(1 << 20)),
        mini_batches: limits.parsed("mini_batches"),
        reports: limits.parsed_by("reports", at_least(1 << 20)),
        failures: limits.parsed("failures"),
        job_time: limits.parsed_by("job_time", job_time),
    };
    limits.finish();
    raw
}

fn job_time(_: &keys::Key, text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    let fits = seconds > 0.0 && seconds <= f64::from(MAX_JOB_TIME);
    Duration::try_from_secs_f64(seconds).ok().filter(|time| fits && !time.is_zero())
}
