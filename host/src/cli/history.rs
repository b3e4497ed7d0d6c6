//! `sandmill status`, `logs` and `explain`: what a job directory tells of its job.

use super::exit::{Exit, Problem};
use super::terminal::{self, print, print_json};
use crate::engine::{JobState, Standing, is_locked};
use crate::model::{JobDir, MiniBatchId};
use crate::report::{
    History, LogFilter, Places, explain_text, print_logs, result_text, standing_text,
};
use anyhow::{Context, anyhow};
use jiff::Timestamp;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Which part of a job's logs.
#[derive(Debug, clap::Args)]
pub(super) struct LogArguments {
    /// The job directory.
    #[arg(value_name = "JOB_DIR")]
    dir: PathBuf,
    /// Only what this worker's entry script said, e.g. process003 or 3.
    #[arg(long, value_name = "NAME", conflicts_with = "mini_batch")]
    worker: Option<String>,
    /// Only this mini-batch: its attempts, their failures, and what was logged meanwhile.
    #[arg(long, value_name = "ID")]
    mini_batch: Option<u64>,
}

/// A job directory, and what is known of its job.
struct Found {
    dir: JobDir,
    state: JobState,
    history: History,
    places: Places,
}

fn find(path: &Path) -> Result<Found, Problem> {
    let here = std::env::current_dir()
        .context("the current folder cannot be found")
        .map_err(Problem::usage)?;
    let dir = JobDir::new(here.join(path));
    let Some(state) = JobState::read(&dir).map_err(Problem::usage)? else {
        return Err(Problem::usage(anyhow!(
            "{} is no job directory: it has no job.json; name the folder that `sandmill run` made \
             (jobs/<the job's name> unless --job-dir said otherwise)",
            path.display()
        )));
    };
    let history = match History::read(&dir) {
        Ok(history) => history,
        // The job has only just begun.
        Err(error) if error.kind() == ErrorKind::NotFound => History::default(),
        Err(error) => {
            return Err(Problem::usage(anyhow!("{}: {error}", dir.events().display())));
        }
    };
    // Relative to the job directory where it lies in it.
    let output = dir.root().join(&state.output);
    let rows = state.output_file.as_ref().map_or(output.clone(), |file| output.join(file));
    // Nothing is written of a job that is looked at.
    let places = Places {
        drops_rows: state.output_file.is_none(),
        ..Places::new(state.name.clone(), dir.clone(), rows, here)
    };
    Ok(Found { dir, state, history, places })
}

/// Prints how a job stands.
pub(super) fn status(path: &Path, json: bool) -> Result<Exit, Problem> {
    let found = find(path)?;
    let running = is_locked(found.dir.root());
    if json {
        return print_json(&status_json(&found, running)).map(|()| Exit::Completed);
    }
    let Found { state, history, places, .. } = &found;
    let name = &state.name;
    let shown = path.display();
    let text = match (&history.result, running) {
        (_, true) => {
            let head = format!("Job {name} is running (process {}).\n", state.pid);
            head + &standing_text(history, true, Timestamp::now())
        }
        (Some(result), false) if state.status != Standing::Running => result_text(result, places),
        _ => {
            let head = format!(
                "Job {name} was interrupted: its process {} is gone. What is committed is kept; go \
                 on with: sandmill resume {shown}\n",
                state.pid
            );
            head + &standing_text(history, false, Timestamp::now())
        }
    };
    print(&text)?;
    Ok(Exit::Completed)
}

fn status_json(found: &Found, running: bool) -> String {
    let Found { state, history, .. } = found;
    let status = match (running, state.status) {
        (true, _) => serde_json::json!("running"),
        (false, Standing::Running) => serde_json::json!("interrupted"),
        (false, status) => serde_json::json!(status),
    };
    let workers: Vec<_> = history
        .workers
        .iter()
        .filter(|_| running)
        .map(|(name, worker)| {
            let mini_batch = match worker.doing {
                crate::report::Doing::Running(id, attempt) => {
                    serde_json::json!({"id": id, "attempt": attempt})
                }
                _ => serde_json::Value::Null,
            };
            serde_json::json!({
                "worker": name, "pid": worker.pid, "gpu_index": worker.gpu_index,
                "running": mini_batch, "since": worker.since,
            })
        })
        .collect();
    let value = serde_json::json!({
        "job": state.name,
        "status": status,
        "pid": state.pid,
        "began": history.began,
        "taken_up": history.taken_up,
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
        "workers": workers,
        "output": found.places.output,
        "result": history.result,
    });
    format!("{value:#}\n")
}

/// Prints what went wrong and what to do.
pub(super) fn explain(path: &Path) -> Result<Exit, Problem> {
    let found = find(path)?;
    let running = is_locked(found.dir.root());
    print(&explain_text(&found.history, &found.places, running))?;
    Ok(Exit::Completed)
}

/// Prints what the entry script said, or one mini-batch's story.
pub(super) fn logs(arguments: &LogArguments) -> Result<Exit, Problem> {
    let found = find(&arguments.dir)?;
    let filter = match (&arguments.worker, arguments.mini_batch) {
        (_, Some(id)) => LogFilter::MiniBatch(MiniBatchId(id)),
        (Some(worker), None) => LogFilter::Worker(worker_name(worker).map_err(Problem::usage)?),
        (None, None) => LogFilter::All,
    };
    let mut out = BufWriter::new(terminal::stdout());
    let printed = print_logs(&found.dir, &filter, &mut out);
    match printed.and_then(|found| out.flush().map(|()| found)) {
        Ok(true) => Ok(Exit::Completed),
        Ok(false) => Err(Problem::usage(nothing(&filter, &arguments.dir))),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Completed),
        Err(error) => Err(Problem::usage(error)),
    }
}

/// `3`, `003` and `process003` are the same.
fn worker_name(text: &str) -> anyhow::Result<String> {
    let digits = text.strip_prefix("process").unwrap_or(text);
    let number: u32 = digits
        .parse()
        .map_err(|_| anyhow!("{text:?} is no worker: write its name, e.g. process003, or 3"))?;
    Ok(crate::model::WorkerId(number).to_string())
}

fn nothing(filter: &LogFilter, dir: &Path) -> anyhow::Error {
    let dir = dir.display();
    match filter {
        LogFilter::All => anyhow!("the entry script of {dir} has said nothing, and nothing failed"),
        LogFilter::Worker(name) => anyhow!(
            "{name} of {dir} has said nothing, and nothing of it failed; `sandmill status {dir}` \
             names the workers of a running job"
        ),
        LogFilter::MiniBatch(id) => anyhow!(
            "nothing is known of mini-batch {id} of {dir}: no attempt at it has ended in the runs \
             that sys/events.jsonl tells of"
        ),
    }
}
