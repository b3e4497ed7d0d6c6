//! What the user can do about a job that did not end well, or about a failed attempt. Each piece of advice is
//! a sentence that names the setting to change.

use super::history::Attempt;
use super::node_folders::worker_logs_folder;
use super::report_paths::ReportPaths;
use crate::model::{EndedBy, Failure, FailureKind, JobResult};

/// Returns advice about a job that did not complete, in one line; `None` for a completed job.
pub(super) fn result_advice(result: &JobResult, paths: &ReportPaths) -> Option<String> {
    let ended_by = result.ended_by?;
    // Mini-batches that succeeded keep their rows. These rows do not match the rows that a changed script or
    // a changed mini-batch size would give.
    let is_kept = result.succeeded_mini_batches > 0;
    let advice = match ended_by {
        EndedBy::NothingSucceeded => advice_if_nothing_succeeded(result),
        other => end_advice(other, is_kept, paths),
    };
    match is_kept && changes_rows(ended_by, result) {
        true => Some(format!(
            "{advice}; if you change the entry script or mini_batch_size for that, run the job again with --overwrite"
        )),
        false => Some(advice),
    }
}

/// Whether following the advice may change the rows.
fn changes_rows(ended_by: EndedBy, result: &JobResult) -> bool {
    let first = result.first_failure.as_ref().map(|first| first.failure.kind);
    match ended_by {
        EndedBy::MiniBatchLimit | EndedBy::ProgressTimeout | EndedBy::InitFailures => true,
        EndedBy::NothingSucceeded => matches!(
            first,
            Some(
                FailureKind::ScriptError
                    | FailureKind::Trap
                    | FailureKind::Exit
                    | FailureKind::OutOfMemory
                    | FailureKind::Timeout
                    | FailureKind::ShortResults
            )
        ),
        _ => false,
    }
}

/// What to do if no item succeeded. The advice depends on where the items failed, which may be before `run`.
fn advice_if_nothing_succeeded(result: &JobResult) -> String {
    let Some(first) = &result.first_failure else {
        return match result.items.total {
            0 => "run sandmill plan to see what it finds in the inputs".to_owned(),
            _ => "logs/failed_items.csv says why each item failed, also in earlier runs of the job"
                .to_owned(),
        };
    };
    let text = match first.failure.kind {
        FailureKind::ShortResults => {
            "compare what run returns with what it is given; a script that writes its own files and \
             returns nothing needs output_action: summary_only"
        }
        FailureKind::BadInput | FailureKind::LoadFailed | FailureKind::LoadTimeout => {
            "fix the inputs as the first cause says; logs/failed_items.csv names each item that could \
             not be read"
        }
        FailureKind::ScriptError | FailureKind::Trap | FailureKind::Exit => {
            "fix the entry script as the first cause says; sandmill check COMPONENT --run FILE tries it \
             on one file"
        }
        FailureKind::OutOfMemory if is_fixed_memory_bound(&first.failure) => {
            "have the entry script hold less: make mini_batch_size smaller"
        }
        FailureKind::OutOfMemory => {
            "raise limits.memory, or have the entry script hold less: make mini_batch_size smaller"
        }
        FailureKind::OutOfFuel => "raise limits.fuel, or look for a loop that does not end",
        FailureKind::Timeout => "raise run_invocation_timeout, or make mini_batch_size smaller",
        FailureKind::OverLimit => "raise the limit that the first cause names, or use less",
        _ => "remove the first cause, then run the job again",
    };
    text.to_owned()
}

/// What to do about a job that ended for this reason, in one line. `is_kept`: whether any mini-batch has
/// succeeded, so that its rows are kept.
fn end_advice(ended_by: EndedBy, is_kept: bool, paths: &ReportPaths) -> String {
    let resume = |set: &str| paths.resume_command(set);
    let tolerate_more = |setting: &str| {
        let resume = resume(&format!("{setting}=N"));
        format!("to tolerate more and resume: {resume}; -1 tolerates all")
    };
    match ended_by {
        EndedBy::ErrorThreshold => tolerate_more("error_threshold"),
        EndedBy::AllowedFailedCount => tolerate_more("allowed_failed_count"),
        EndedBy::AllowedFailedPercent => {
            let resume = resume("allowed_failed_percent=N");
            format!("to tolerate more and resume: {resume}")
        }
        EndedBy::NothingSucceeded => "logs/failed_items.csv says why each item failed".to_owned(),
        // If the user changes the entry script, the job starts from the beginning, unless a
        // mini-batch has succeeded: then Sandmill refuses to run the job with the changed script.
        EndedBy::InitFailures if is_kept => {
            let resume = resume("");
            format!("repair what init reads, and resume: {resume}")
        }
        EndedBy::InitFailures => {
            let resume = resume("");
            format!("repair init, or what it reads; then resume: {resume}")
        }
        EndedBy::StuckInInit => "find out what init waits for; if it is only slow, raise \
            run_invocation_timeout"
            .to_owned(),
        EndedBy::FirstTaskTimeout => {
            "run sandmill plan to see how long it takes to cut the inputs; \
            if it is only slow, raise first_task_creation_timeout"
                .to_owned()
        }
        EndedBy::ProgressTimeout => format!(
            "see in {} what each worker did last; if mini-batches are only slow, make them smaller or \
             raise progress_update_timeout",
            worker_logs_folder(&paths.job_dir)
        ),
        EndedBy::MiniBatchLimit => {
            "make mini_batch_size larger, so that there are fewer mini-batches; sandmill \
            plan counts them"
                .to_owned()
        }
        EndedBy::JobTime => format!("to resume, for as long again: {}", resume("")),
        EndedBy::Plan => "run sandmill plan to check the inputs".to_owned(),
        EndedBy::Commit => format!("check the disk, then resume: {}", resume("")),
        EndedBy::Replaced => "nothing: the other process continues the job".to_owned(),
        EndedBy::Spawn => format!(
            "the machine may be short of memory or of processes; to resume with fewer workers: {}",
            resume("process_count_per_node=N")
        ),
        EndedBy::Cancelled => format!("to resume: {}", resume("")),
    }
}

/// Whether the leader had to give up, although the entry script did not fail.
pub(super) fn leader_gave_up(ended_by: Option<EndedBy>) -> bool {
    matches!(
        ended_by,
        Some(
            EndedBy::Plan
                | EndedBy::Commit
                | EndedBy::Replaced
                | EndedBy::Spawn
                | EndedBy::FirstTaskTimeout
                | EndedBy::ProgressTimeout
                | EndedBy::StuckInInit
        )
    )
}

/// The reason why a job ended, as a name for reports, such as `error_threshold`.
pub(super) fn ended_by_name(ended_by: EndedBy) -> String {
    match serde_json::to_value(ended_by) {
        Ok(serde_json::Value::String(name)) => name,
        // Cannot happen: it is an enum without data.
        _ => format!("{ended_by:?}"),
    }
}

/// What to do about records and files that cannot be decoded.
pub(super) const BAD_INPUT: &str = "failed_items.csv says where the input is broken: fix that file, exclude it with a glob, or tolerate its rows with error_threshold. Sandmill does not try broken input again, as the result would be the same";

/// What to do when the entry script's model was refused.
const MODEL_REFUSED: [&str; 2] = [
    "The entry script got this error from a model. Try it with that model alone: sandmill check COMPONENT --run FILE --model NAME=PATH",
    "docs/inference.md says what each backend supports, and sandmill doctor shows the backends and GPUs of this machine. ONNX Runtime may run a model that tract does not support: run \"pip install onnxruntime\" in the active virtual environment, or name its library with --onnxruntime PATH",
];

/// Whether the entry script's error comes from a model.
fn is_model_error(failure: &Failure) -> bool {
    failure.message.contains("model \"")
}

/// A call that computed for less than this share of its time was waiting for something.
pub(super) const BUSY_SHARE: f64 = 0.5;

/// What to change when attempts fail like this. `killed`: whether the worker got a SIGKILL that Sandmill did
/// not send.
pub(super) fn failure_advice(failure: &Failure, first: &Attempt, killed: bool) -> Vec<String> {
    let texts: Vec<&str> = match failure.kind {
        FailureKind::ScriptError if is_model_error(failure) => MODEL_REFUSED.to_vec(),
        FailureKind::OutOfMemory if failure.message.starts_with("inference failed") => vec![
            "Pass less data to a model in one call, or raise limits.tensors or limits.models, which determine a worker's memory for inference",
        ],
        FailureKind::ScriptError | FailureKind::Trap | FailureKind::Exit => vec![
            "The entry script failed by itself. Try it on only the files that fail: sandmill check COMPONENT --run FILE, with the job's --arg, --env and --side-input",
            "If only some items fail, let run return an outcome for each item: then the other items of the mini-batch count, and failed_items.csv names those that failed",
        ],
        FailureKind::OutOfMemory if killed => vec![
            "If the machine ran out of memory, use fewer workers (process_count_per_node) or a lower limits.memory; logs/perf shows its memory over time",
            "If it did not, something else killed the process; the mini-batch was tried again",
        ],
        FailureKind::OutOfMemory if is_fixed_memory_bound(failure) => vec![
            "Have the entry script hold less: a smaller mini_batch_size helps if it holds the whole mini-batch. No limit can give it more",
        ],
        FailureKind::OutOfMemory => vec![
            "Raise limits.memory, or have the entry script hold less: a smaller mini_batch_size helps if it holds the whole mini-batch",
        ],
        FailureKind::DeviceOutOfMemory => vec![
            "Give the GPU less at once: a smaller mini_batch_size, fewer images in one call, fewer workers on one GPU, or a lower inference.gpu_memory in the other jobs on this GPU",
        ],
        FailureKind::OutOfFuel => vec!["Raise limits.fuel, or look for a loop that does not end"],
        FailureKind::Timeout => return timeout_advice(first),
        FailureKind::LoadTimeout => vec![
            "Raise task_overhead_timeout, choose a smaller mini_batch_size, or check the disk or network that the input is on",
        ],
        FailureKind::BadResults => {
            vec!["The entry script breaks the contract: wit/entry.wit says what run may return"]
        }
        FailureKind::ShortResults => vec![
            "Return one row for each item, or set strict_cardinality to false and accept the difference as failed items",
        ],
        FailureKind::LoadFailed => vec![
            "The input could not be read: check the files that the message names. sandmill plan shows what would be read",
        ],
        FailureKind::BadInput => vec![BAD_INPUT],
        FailureKind::BadOutput => vec![
            "Give each result file a unique name (with the mini-batch's id or the worker's name), or set output_files to append or overwrite",
        ],
        FailureKind::OverLimit => {
            vec!["Have the entry script use less, or raise the limit that the message names"]
        }
        FailureKind::Forbidden => vec![
            "The system-call filter ended the worker: guest code must have got out of its sandbox, or a library of the machine behaves unexpectedly. Please report it",
        ],
        FailureKind::WorkerDied if was_killed(failure) => vec![
            "Find out what kills processes on this machine: a user, a watchdog, or a container that was stopped. The worker's mini-batch is tried again as long as run_max_try allows it; nothing else is lost",
        ],
        FailureKind::WorkerDied => vec![
            "The worker process ended unexpectedly: its last output is in its file below logs/sys/node. If it happens again, please report it",
        ],
        FailureKind::NoSpace => vec!["Free some space on the disk that holds the job directory"],
        FailureKind::HostFault => vec![
            "The machine is to blame, not the entry script: check the disk and the permissions of the folders that the message names",
        ],
    };
    texts.into_iter().map(str::to_owned).collect()
}

/// Whether the memory reached a bound that the user cannot change (such as 4 GB), and not `limits.memory`.
fn is_fixed_memory_bound(failure: &Failure) -> bool {
    failure.message.contains("although limits.memory allows")
}

/// Whether the worker was killed from outside.
pub(super) fn was_killed(failure: &Failure) -> bool {
    failure.kind == FailureKind::WorkerDied && failure.message.contains("returncode -9")
}

/// What to change when workers fail to start.
pub(super) fn init_advice(failure: &Failure) -> Vec<String> {
    let text = match failure.kind {
        FailureKind::ScriptError if is_model_error(failure) => {
            return MODEL_REFUSED.map(str::to_owned).to_vec();
        }
        FailureKind::OutOfMemory => "Raise limits.memory, or have init load less",
        FailureKind::OutOfFuel => "Raise limits.fuel, or have init do less",
        FailureKind::Timeout => {
            "Raise run_invocation_timeout: init may take 3 times that, plus 30 s"
        }
        FailureKind::HostFault | FailureKind::WorkerDied => {
            "The worker process could not start: read its output below logs/sys/node, and check the disk, permissions and limits of the machine"
        }
        _ => {
            "init fails by itself: look for a side input, an argument or a variable that is missing. sandmill check COMPONENT --run FILE, with the job's --arg, --env and --side-input, calls init on this machine"
        }
    };
    vec![text.to_owned()]
}

/// If an attempt took much more elapsed time than CPU time, it was waiting: see
/// docs/parallel-run-step.md, Causes of failure and their signs.
fn timeout_advice(attempt: &Attempt) -> Vec<String> {
    let share = attempt.cpu / attempt.elapsed.max(f64::MIN_POSITIVE);
    let percent = (share * 100.0).round();
    let why = if share > BUSY_SHARE {
        format!(
            "It computed for {percent} % of the time: the work is too much for one call; \
             profiling_module: guest shows where the time goes"
        )
    } else {
        format!(
            "The entry script computed for only {percent} % of the time and waited for the rest: check the \
             disk or network that holds its files. If there were more workers than processors, use \
             fewer workers (process_count_per_node)"
        )
    };
    vec![
        why,
        "Raise run_invocation_timeout, or choose a smaller mini_batch_size, so that one call has less to do".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MiniBatchId;
    use jiff::Timestamp;

    /// An attempt of ten seconds, with this many CPU seconds.
    fn attempt(cpu: f64) -> Attempt {
        Attempt {
            id: MiniBatchId(1),
            attempt: 1,
            worker: "process000".to_owned(),
            location: String::new(),
            started: Timestamp::UNIX_EPOCH,
            items: 1,
            elapsed: 10.0,
            cpu,
            run: 10.0,
        }
    }

    #[test]
    fn no_advice_to_raise_a_fixed_memory_bound() {
        let failure = Failure::new(
            FailureKind::OutOfMemory,
            "its memory cannot grow beyond 4 GB, although limits.memory allows 8 GB",
        );
        let reported = failure_advice(&failure, &attempt(1.0), false);
        assert!(reported[0].starts_with("Have the entry script hold less"), "{reported:?}");
    }

    /// An error from a model gets other advice than other errors in init.
    #[test]
    fn a_refused_model_has_its_own_advice() {
        let refused = |message: &str| Failure::new(FailureKind::ScriptError, message);
        let model =
            refused("model \"churn\": it needs FeatureVectorizer, which tract does not have");
        let reported = init_advice(&model);
        assert!(reported[1].contains("pip install onnxruntime"), "{reported:?}");
        assert_eq!(reported, failure_advice(&model, &attempt(1.0), false));
        assert!(init_advice(&refused("no file"))[0].starts_with("init fails by itself"));
    }

    /// Rule T6 in docs/parallel-run-step.md: the advice compares the elapsed and CPU seconds of an attempt
    /// that was too slow.
    #[test]
    fn computing_and_waiting_are_distinguished() {
        let advice = |cpu| {
            let failure = Failure::new(FailureKind::Timeout, "");
            failure_advice(&failure, &attempt(cpu), false)[0].clone()
        };
        assert!(advice(9.0).starts_with("It computed for 90 % of the time: the work is too much"));
        assert!(
            advice(1.0)
                .starts_with("The entry script computed for only 10 % of the time and waited")
        );
    }
}
