//! Checks limits that have no effect, and limits that are certainly too low.

use super::error::ErrorReport;
use super::job::JobSpec;
use super::raw::RawJob;
use crate::model::{ByteSize, InputKind};

/// The maximum size of a WebAssembly component's memory, because its pointers have 32 bits.
const MAX_WASM_MEMORY: u64 = 4 << 30;

/// Adds a notice for limits that an entry script cannot reach, because its memory is smaller.
pub(super) fn note_useless(raw: &RawJob, report: &ErrorReport) {
    let limits = &raw.limits;
    let given = [&limits.memory, &limits.read, &limits.results, &limits.row, &limits.transfer];
    for limit in given.into_iter().flatten().filter(|limit| limit.value.0 > MAX_WASM_MEMORY) {
        report.notice(format!(
            "{} is {}, but an entry script can use at most {}: the memory of a WebAssembly component cannot \
             be larger",
            limit.key,
            limit.value,
            ByteSize(MAX_WASM_MEMORY)
        ));
    }
}

/// Refuses a job whose settings alone show that it has more mini-batches than allowed. Must be called after
/// the policy was applied, because the policy may lower the limit.
pub(super) fn check_count(spec: &JobSpec, raw: &RawJob, report: &ErrorReport) {
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
