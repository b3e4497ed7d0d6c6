//! The keys below `limits`: what one instance may use, and what the leader spends on the job.

use super::defaults::Defaults;
use super::error::Report;
use super::job::JobSpec;
use super::keys::{self, MAX_JOB_TIME};
use super::raw::{RawJob, at_least};
use super::scope::{At, Scope};
use crate::model::{ByteSize, InputKind, JobLimits, Limits};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RawLimits {
    pub(super) memory: Option<At<ByteSize>>,
    pub(super) stack: Option<At<ByteSize>>,
    pub(super) fuel: Option<At<u64>>,
    pub(super) read: Option<At<ByteSize>>,
    pub(super) results: Option<At<ByteSize>>,
    pub(super) row: Option<At<ByteSize>>,
    pub(super) logs: Option<At<ByteSize>>,
    pub(super) output: Option<At<ByteSize>>,
    pub(super) files: Option<At<u64>>,
    pub(super) handles: Option<At<u64>>,
    pub(super) transfer: Option<At<ByteSize>>,
    pub(super) models: Option<At<ByteSize>>,
    pub(super) tensors: Option<At<ByteSize>>,
    pub(super) mini_batches: Option<At<u64>>,
    pub(super) reports: Option<At<ByteSize>>,
    pub(super) failures: Option<At<u64>>,
    pub(super) job_time: Option<At<Duration>>,
}

/// Reads the group.
pub(super) fn read(job: &mut Scope<'_>) -> RawLimits {
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

/// What one instance may use.
pub(super) fn of_instance(raw: &RawJob, defaults: &Defaults<'_>) -> Limits {
    Limits {
        memory: defaults.of(raw, |raw| &raw.limits.memory),
        stack: defaults.of(raw, |raw| &raw.limits.stack),
        fuel: raw.limits.fuel.as_ref().map(|fuel| fuel.value),
        read: defaults.of(raw, |raw| &raw.limits.read),
        results: defaults.of(raw, |raw| &raw.limits.results),
        row: defaults.of(raw, |raw| &raw.limits.row),
        logs: defaults.of(raw, |raw| &raw.limits.logs),
        output: defaults.of(raw, |raw| &raw.limits.output),
        files: defaults.of(raw, |raw| &raw.limits.files),
        handles: defaults.of(raw, |raw| &raw.limits.handles),
        transfer: defaults.of(raw, |raw| &raw.limits.transfer),
        models: defaults.of(raw, |raw| &raw.limits.models),
        tensors: defaults.of(raw, |raw| &raw.limits.tensors),
    }
}

/// What one memory of a WebAssembly component can hold: its pointers have 32 bits.
const MOST_MEMORY: u64 = 4 << 30;

/// Notes limits that no entry script reaches, as its memory ends before.
pub(super) fn note_useless(raw: &RawJob, report: &Report) {
    let limits = &raw.limits;
    let given = [&limits.memory, &limits.read, &limits.results, &limits.row, &limits.transfer];
    for limit in given.into_iter().flatten().filter(|limit| limit.value.0 > MOST_MEMORY) {
        report.notice(format!(
            "{} is {}, of which an entry script can use {}: a memory of a WebAssembly component ends \
             there",
            limit.key,
            limit.value,
            ByteSize(MOST_MEMORY)
        ));
    }
}

/// What the leader spends on the job.
pub(super) fn of_job(raw: &RawJob, defaults: &Defaults<'_>) -> JobLimits {
    JobLimits {
        mini_batches: defaults.of(raw, |raw| &raw.limits.mini_batches),
        reports: defaults.of(raw, |raw| &raw.limits.reports),
        failures: defaults.of(raw, |raw| &raw.limits.failures),
        job_time: raw.limits.job_time.as_ref().map(|time| time.value),
    }
}

/// Refuses a job that is known to have more mini-batches than it may, once the policy is applied.
pub(super) fn check_count(spec: &JobSpec, raw: &RawJob, report: &Report) {
    let InputKind::Void { count } = spec.input_kind else { return };
    let most = spec.job_limits.mini_batches;
    if let Some(given) = raw.rank_mini_batch_count.as_ref().filter(|_| count > most) {
        given.blame(
            report,
            format!(
                "found {count}, more mini-batches than limits.mini_batches allows this job ({most})"
            ),
        );
    }
}
