//! What the keys below `limits` come to: what one instance may use, and what the leader spends on the job.

use super::defaults::Defaults;
use super::error::Report;
use super::job::JobSpec;
use super::raw::RawJob;
use crate::model::{ByteSize, InputKind, JobLimits, Limits};

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
