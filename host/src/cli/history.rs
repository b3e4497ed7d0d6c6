//! `sandmill status`, `logs` and `explain`: information about a job from its directory or from its job store.

use super::exit::{Exit, Problem};
use super::job_source::{AnyJobArgument, JobSource, KnownInStore, KnownJob};
use super::jobs::{age, cancel_json};
use super::jobs_found::CurrentState;
use super::say;
use super::terminal::{self, print, print_json};
use crate::model::{MiniBatchId, on_one_line};
use crate::report::{
    Follower, LogFilter, explain_json, explain_text, job_status_text, logs_json, print_logs,
    result_text,
};
use anyhow::anyhow;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::{BufWriter, ErrorKind, Write};
use std::thread::sleep;
use std::time::Duration;

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;
/// The pause between two updates with `status --watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    pub(super) job: AnyJobArgument,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Updates every second, until the job has ended.
    #[arg(long)]
    pub(super) watch: bool,
    /// Exits as `run` did: 0 if the job is completed, 42 if it failed, 130 if it was cancelled; 3 if it has
    /// not ended.
    #[arg(long)]
    pub(super) exit_code: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    pub(super) job: AnyJobArgument,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogArguments {
    #[command(flatten)]
    pub(super) job: AnyJobArgument,
    /// Follows the output until the job ends; then exits as `status --exit-code` does.
    #[arg(short, long, conflicts_with_all = ["mini_batch", "json"])]
    pub(super) follow: bool,
    /// Prints JSON, one object per line, with worker, kind, file and line; for a mini-batch, the events of
    /// its attempts.
    #[arg(long)]
    pub(super) json: bool,
    /// Only the output of this worker's entry script, e.g. process003 or 3.
    #[arg(long, value_name = "NAME", conflicts_with = "mini_batch")]
    pub(super) worker: Option<String>,
    /// Only this mini-batch: its attempts, their failures, and what was logged meanwhile.
    #[arg(long, value_name = "ID")]
    pub(super) mini_batch: Option<u64>,
}

/// The exit code of a command that exits as the job did.
fn exit_like_job(now: CurrentState) -> Exit {
    match now {
        CurrentState::Completed => Exit::Completed,
        CurrentState::Failed => Exit::Failed,
        CurrentState::Cancelled => Exit::Cancelled,
        CurrentState::Running | CurrentState::Waiting | CurrentState::Interrupted => {
            Exit::Unfinished
        }
    }
}

/// Prints the state of a job.
pub(super) fn status(arguments: &StatusArguments) -> Result<Exit, Problem> {
    let mut source = arguments.job.find()?;
    loop {
        let found = source.read()?;
        let now = found.now();
        let text = match arguments.json {
            true => status_json(&found, now),
            false => status_text(&found, now),
        };
        match arguments.json {
            true => print_json(&text)?,
            false if arguments.watch => {
                terminal::clear_screen();
                print(&text)?;
            }
            false => print(&text)?,
        }
        if !(arguments.watch && now.is_live()) {
            return Ok(if arguments.exit_code { exit_like_job(now) } else { Exit::Completed });
        }
        sleep(WATCH_INTERVAL);
    }
}

fn status_text(found: &KnownJob, now: CurrentState) -> String {
    let KnownJob { state, history, paths, process, .. } = found;
    let name = &state.name;
    let clock = Timestamp::now();
    let stored = found.stored.as_ref().map(|stored| stored_text(stored, clock)).unwrap_or_default();
    match (&history.result, now) {
        (_, CurrentState::Running | CurrentState::Interrupted) if state.is_unpublished => {
            unpublished_text(found, now) + &job_status_text(history, false, clock) + &stored
        }
        (_, CurrentState::Running) => {
            let head = format!("Job {name} is running ({process}).\n");
            head + &job_status_text(history, true, clock) + &stored
        }
        (_, CurrentState::Waiting) => {
            let head = format!(
                "Job {name} is waiting for its turn ({process}): other jobs use all that this \
                 machine gives to jobs; sandmill jobs lists them.\n"
            );
            head + &job_status_text(history, true, clock) + &stored
        }
        (
            Some(result),
            CurrentState::Completed | CurrentState::Failed | CurrentState::Cancelled,
        ) => result_text(result, paths),
        // The events were removed, or could not be written to a full disk.
        (None, CurrentState::Completed | CurrentState::Failed | CurrentState::Cancelled) => {
            match &state.result {
                Some(result) => result_text(result, paths),
                None => format!("Job {name} {}.\n", state.status.how()),
            }
        }
        (_, CurrentState::Interrupted) => {
            let head = format!(
                "Job {name} was interrupted: its {process} is gone. Committed results are kept; \
                 resume with: {}\n",
                paths.resume.advice(&found.word, "")
            );
            head + &job_status_text(history, false, clock) + &stored
        }
    }
}

/// The state of a job whose mini-batches are done, and whose results are not all at their address.
fn unpublished_text(found: &KnownJob, now: CurrentState) -> String {
    let KnownJob { state, process, .. } = found;
    let name = &state.name;
    let address = state.output_shown().display();
    if now.is_live() {
        return format!(
            "Job {name} is running ({process}): its mini-batches are done, and it writes the results to {address}.\n"
        );
    }
    format!(
        "Job {name} was interrupted: its mini-batches are done, its {process} is gone, and its results are not all in \
         {address}. Committed results are kept; write them there with: {}\n",
        found.paths.resume.advice(&found.word, "")
    )
}

/// What only a job store says about a job that has not ended.
fn stored_text(stored: &KnownInStore, clock: Timestamp) -> String {
    let mut text = String::new();
    if let Some(word) = &stored.last_word {
        text += &format!("  {:<14}{} ago\n", "last word", age(word.at, clock));
    }
    if let Some(cancel) = &stored.cancel {
        let how = if cancel.at_once { ", at once" } else { "" };
        let host = on_one_line(&cancel.host);
        let ago = age(cancel.at, clock);
        text += &format!("  {:<14}requested {ago} ago on {host}{how}\n", "cancel");
    }
    text
}

fn status_json(found: &KnownJob, now: CurrentState) -> String {
    let KnownJob { state, history, .. } = found;
    let workers: Vec<_> = history
        .workers
        .iter()
        .filter(|_| now.is_live())
        .map(|(name, worker)| {
            let mini_batch = match worker.doing {
                crate::report::WorkerActivity::Running(id, attempt) => {
                    json!({"id": id, "attempt": attempt})
                }
                _ => Value::Null,
            };
            json!({
                "worker": name, "pid": worker.pid, "gpu_index": worker.gpu_index,
                "running": mini_batch, "since": worker.since,
            })
        })
        .collect();
    let ended = || state.result.as_ref().and_then(|result| result.receipts.as_ref());
    let receipts = history.receipts.as_ref().or_else(ended);
    let mut value = json!({
        "version": VERSION,
        "job": state.name,
        "job_dir": found.dir,
        "run": state.id,
        "tenant": state.started_by.as_ref().map_or(&history.tenant, |by| &by.tenant),
        "started_by": state.started_by,
        "status": now,
        "unpublished": state.is_unpublished,
        "pid": state.pid,
        "began": history.began,
        "ended": state.ended,
        "waits_since": history.waits_since.filter(|_| now == CurrentState::Waiting),
        "times_resumed": history.times_resumed,
        "mini_batches": {
            "planned": history.planned,
            "planning_finished": history.plan_finished,
            "succeeded": history.succeeded,
            "failed": history.failed,
            "short": history.short,
            "waiting_for_another_try": history.waiting.len(),
        },
        "items": history.items,
        "rows": history.rows,
        "processor_seconds": history.processor_seconds,
        "bytes_read": history.bytes_read,
        "receipts": receipts,
        "mixed_backends": history.mixed_backends,
        "workers": workers,
        "output": found.paths.output,
        "result": history.result.as_ref().or(state.result.as_ref()).filter(|_| !now.is_live()),
    });
    if let (Some(stored), Value::Object(all)) = (&found.stored, &mut value) {
        let word = stored.last_word.as_ref();
        all.insert("log".to_owned(), json!(stored.place));
        all.insert("machine".to_owned(), json!(word.map(|word| &word.leader.host)));
        all.insert("last_word".to_owned(), json!(word.map(|word| word.at)));
        all.insert("cancel_requested".to_owned(), cancel_json(stored.cancel.as_ref()));
    }
    format!("{value:#}\n")
}

/// Prints what went wrong and what to do.
pub(super) fn explain(arguments: &ExplainArguments) -> Result<Exit, Problem> {
    let found = arguments.job.find()?.read()?;
    if arguments.json {
        let KnownJob { state, history, paths, .. } = &found;
        let mut value = json!({
            "version": VERSION,
            "job": state.name,
            "job_dir": found.dir,
            "status": found.now(),
            "result": history.result.as_ref().or(state.result.as_ref()),
        });
        if let (Some(all), Value::Object(more)) =
            (value.as_object_mut(), explain_json(history, paths))
        {
            all.extend(more);
        }
        print_json(&format!("{value:#}\n"))?;
        return Ok(Exit::Completed);
    }
    print(&explain_text(&found.history, &found.paths, found.is_live))?;
    Ok(Exit::Completed)
}

/// Prints the output of the entry script, or the attempts at a mini-batch.
pub(super) fn logs(arguments: &LogArguments) -> Result<Exit, Problem> {
    let mut source = arguments.job.find()?;
    let found = source.read()?;
    let filter = match (&arguments.worker, arguments.mini_batch) {
        (_, Some(id)) => LogFilter::MiniBatch(MiniBatchId(id)),
        (Some(worker), None) => LogFilter::Worker(worker_name(worker).map_err(Problem::usage)?),
        (None, None) => LogFilter::All,
    };
    if arguments.follow {
        return follow(&mut source, &found, &filter);
    }
    let printed = if arguments.json {
        let mut line = |value: &Value| terminal::write_json_line(&value.to_string());
        logs_json(&found.logs, &filter, &mut line)
    } else {
        let mut out = BufWriter::new(terminal::stdout());
        let printed = print_logs(&found.logs, &filter, &mut out);
        printed.and_then(|found| out.flush().map(|()| found))
    };
    match printed {
        Ok(true) => Ok(Exit::Completed),
        Ok(false) => {
            say(&nothing_to_print(&filter, &found.word));
            Ok(Exit::Completed)
        }
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Completed),
        Err(error) => Err(Problem::usage(error)),
    }
}

/// Prints the output of entry scripts until the job has ended.
fn follow(source: &mut JobSource, found: &KnownJob, filter: &LogFilter) -> Result<Exit, Problem> {
    let worker = match filter {
        LogFilter::Worker(name) => Some(name.as_str()),
        LogFilter::All | LogFilter::MiniBatch(_) => None,
    };
    let mut follower = Follower::new(&found.logs, worker);
    let mut out = BufWriter::new(terminal::stdout());
    loop {
        // Check first whether the job has ended: then this round prints everything that it wrote.
        let is_last = !source.is_live()?;
        source.new_logs().into_iter().for_each(|logs| follower.set_logs(logs));
        let printed = follower.print_new(is_last, &mut out).and_then(|_| out.flush());
        match printed {
            // The reader of the pipe has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Completed),
            Err(error) => return Err(Problem::usage(error)),
            Ok(()) if is_last => return Ok(exit_like_job(source.read()?.now())),
            Ok(()) => sleep(source.interval()),
        }
    }
}

/// `3`, `003` and `process003` name the same worker.
fn worker_name(text: &str) -> anyhow::Result<String> {
    let digits = text.strip_prefix("process").unwrap_or(text);
    let number: u32 = digits
        .parse()
        .map_err(|_| anyhow!("{text:?} is not a worker: write its name, e.g. process003, or 3"))?;
    Ok(crate::model::WorkerId(number).to_string())
}

/// The message that there is nothing to print, which is not an error.
fn nothing_to_print(filter: &LogFilter, job: &str) -> String {
    match filter {
        LogFilter::All => {
            format!("the entry script of {job} has written nothing, and nothing failed")
        }
        LogFilter::Worker(name) => format!(
            "{name} of {job} has written nothing, and has not failed; `sandmill status {job}` \
             names the workers of a running job"
        ),
        LogFilter::MiniBatch(id) => format!(
            "no attempt at mini-batch {id} of {job} has ended in the runs that sys/events.jsonl records"
        ),
    }
}
