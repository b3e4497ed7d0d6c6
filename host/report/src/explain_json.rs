//! The output of `sandmill explain` for programs.

use super::explain::{advice_lines, files_to_read};
use super::history::{Attempt, FailureGroup, History};
use super::report_paths::ReportPaths;
use serde_json::{Value, json};

/// The explanation as JSON, with the same facts as [`explain_text`](super::explain_text).
pub fn explain_json(history: &History, paths: &ReportPaths) -> Value {
    let first_failed_start = history.first_init_failure.as_ref();
    let first_failed_start =
        first_failed_start.map(|(worker, failure)| json!({"worker": worker, "failure": failure}));
    let items = history.failed_items.iter();
    let items: Vec<Value> =
        items.map(|(id, item)| json!({"mini_batch": id, "item": item})).collect();
    let exits = history.exits.iter();
    let exits: Vec<Value> =
        exits.map(|(worker, how)| json!({"worker": worker, "how": how})).collect();
    json!({
        "failures": history.groups.iter().map(group).collect::<Vec<_>>(),
        "failed_starts": {"count": history.init_failures, "first": first_failed_start},
        "worker_exits": {"count": history.exit_count, "first": exits},
        "late_attempts": history.late,
        "twins": history.twins,
        "mixed_backends": history.mixed_backends,
        "failed_items": items,
        "slowest": history.slowest.iter().map(attempt).collect::<Vec<_>>(),
        "median_run_seconds": history.median_run(),
        "notices": history.notices,
        "to_read": files_to_read(history, paths),
        "to_change": advice_lines(history, paths),
    })
}

fn group(group: &FailureGroup) -> Value {
    json!({
        "attempts": group.count,
        "failure": group.failure,
        "mini_batches": group.mini_batches,
        "more_mini_batches": group.has_more_mini_batches,
        "first": attempt(&group.first),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "mini_batch": attempt.id,
        "attempt": attempt.attempt,
        "worker": attempt.worker,
        "location": attempt.location,
        "started": attempt.started,
        "items": attempt.items,
        "elapsed_seconds": attempt.elapsed,
        "processor_seconds": attempt.cpu,
        "run_seconds": attempt.run,
    })
}
