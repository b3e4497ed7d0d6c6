//! Limits that say nothing, and those that are known to be too low.

use super::error::Report;
use super::job::JobSpec;
use super::raw::RawJob;
use crate::model::{ByteSize, InputKind};

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
