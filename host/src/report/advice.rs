//! What to do about a failure: one sentence each, naming the setting.

use super::history::Attempt;
use crate::model::{EndedBy, FailureKind};

/// A call that spent less than this share of its time computing waited for something.
const COMPUTING: f64 = 0.5;

/// What to change when attempts fail like this. `killed`: by somebody else, with its process.
pub(super) fn of_failure(kind: FailureKind, first: &Attempt, killed: bool) -> Vec<String> {
    let texts: Vec<&str> = match kind {
        FailureKind::ScriptError | FailureKind::Trap | FailureKind::Exit => vec![
            "The entry script failed by itself. Try it on the guilty files alone: sandmill check COMPONENT --run FILE",
            "If single items are to blame, have run return outcomes: then the others of the mini-batch count, and failed_items.csv names the guilty",
        ],
        FailureKind::OutOfMemory if killed => vec![
            "If the machine ran out of memory, use fewer workers (process_count_per_node) or a lower limits.memory; logs/perf shows its memory over time",
            "If it did not, somebody or something else killed the process; the mini-batch was tried again",
        ],
        FailureKind::OutOfMemory => vec![
            "Raise limits.memory, or have the entry script hold less: a smaller mini_batch_size helps if it holds the whole mini-batch",
        ],
        FailureKind::OutOfFuel => vec!["Raise limits.fuel, or look for a loop that does not end"],
        FailureKind::Timeout => return time_out(first),
        FailureKind::LoadTimeout => vec![
            "Raise task_overhead_timeout, choose a smaller mini_batch_size, or look at the disk or network that the input lies on",
        ],
        FailureKind::BadResults => {
            vec!["The entry script breaks the contract: wit/entry.wit says what run may return"]
        }
        FailureKind::ShortResults => vec![
            "Return one row for each item, or set strict_cardinality to false and bear the difference as failed items",
        ],
        FailureKind::LoadFailed => vec![
            "The input could not be read: look at the files that the message names. sandmill plan shows what would be read",
        ],
        FailureKind::BadOutput => vec![
            "Give result files names of their own (with the mini-batch's id or the worker's name), or set output_files to append or overwrite",
        ],
        FailureKind::WorkerDied => vec![
            "The worker process ended unbidden: what it said last is in its file below logs/sys/node. If it happens again, please report it",
        ],
        FailureKind::HostFault => vec![
            "The machine is to blame, not the entry script: look at the disk and the rights of the folders that the message names",
        ],
    };
    texts.into_iter().map(str::to_owned).collect()
}

/// What to change when workers fail to start.
pub(super) fn of_init(kind: FailureKind) -> Vec<String> {
    let text = match kind {
        FailureKind::OutOfMemory => "Raise limits.memory, or have init load less",
        FailureKind::OutOfFuel => "Raise limits.fuel, or have init do less",
        FailureKind::Timeout => {
            "Raise run_invocation_timeout: init may take 3 times as long, and 30 s more"
        }
        FailureKind::HostFault | FailureKind::WorkerDied => {
            "The worker process could not begin: read what it said below logs/sys/node, and look at disk, rights and limits of the machine"
        }
        _ => {
            "init fails by itself: look for a side input, an argument or a variable that it misses. sandmill check COMPONENT --run FILE calls init on this machine"
        }
    };
    vec![text.to_owned()]
}

/// prs-semantics 1.11: a large gap between elapsed and CPU seconds means waiting.
fn time_out(attempt: &Attempt) -> Vec<String> {
    let why = match attempt.elapsed {
        elapsed if elapsed > 0.0 && attempt.cpu > 0.0 => {
            let share = attempt.cpu / elapsed;
            let percent = (share * 100.0).round();
            if share > COMPUTING {
                format!("It computed for {percent} % of the time: the work is too much for one call")
            } else {
                format!("It computed for only {percent} % of the time and waited for the rest: look at the disk or network that its files lie on")
            }
        }
        _ => "Compare its elapsed with its CPU seconds in processed_mini-batches.csv: a large gap means that it waited for the disk or the network".to_owned(),
    };
    vec![
        why,
        "Raise run_invocation_timeout, or choose a smaller mini_batch_size, so that one call has less to do".to_owned(),
    ]
}

/// What to change when a job was ended by this.
pub(super) fn of_end(end: EndedBy) -> Vec<String> {
    let text = match end {
        EndedBy::ErrorThreshold => {
            "To bear failed items, raise error_threshold (-1 bears all), then go on with sandmill resume: what succeeded is kept"
        }
        EndedBy::AllowedFailedCount => {
            "To bear failed mini-batches, raise allowed_failed_count (-1 bears all), then go on with sandmill resume"
        }
        EndedBy::AllowedFailedPercent => {
            "To bear failed mini-batches, raise allowed_failed_percent (100 bears all), then go on with sandmill resume"
        }
        EndedBy::NothingSucceeded => {
            "An entry script that only writes files of its own wants output_action: summary_only"
        }
        EndedBy::InitFailures => {
            "Nothing was run, since every worker failed to start; once that is mended, go on with sandmill resume"
        }
        EndedBy::StuckInInit => {
            "init may take 3 x run_invocation_timeout + 30 s: raise run_invocation_timeout, or do less in init"
        }
        EndedBy::FirstTaskTimeout => {
            "Raise first_task_creation_timeout, or see with sandmill plan what takes so long to list or cut"
        }
        EndedBy::ProgressTimeout => {
            "Raise progress_update_timeout, or choose a smaller mini_batch_size, so that there is progress to see"
        }
        EndedBy::Plan => "sandmill plan tries the inputs without running anything",
        EndedBy::Commit => {
            "Make room on the disk, or name another output folder; then go on with sandmill resume: what is committed is kept"
        }
        EndedBy::Spawn => {
            "Use fewer workers (process_count_per_node), or look at the limits for processes and open files (ulimit -a)"
        }
        EndedBy::Cancelled => "Go on where it was with sandmill resume",
    };
    vec![text.to_owned()]
}
