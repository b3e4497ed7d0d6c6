//! `sandmill status`, `logs` and `explain`: information about a job from its directory.

use super::exit::{Exit, Problem};
use super::jobs_found::CurrentState;
use super::say;
use super::terminal::{self, print, print_json};
use super::which::JobArgument;
use crate::engine::{JobState, is_locked};
use crate::model::{JobDir, MiniBatchId, shell_word};
use crate::report::{
    Follower, History, LogFilter, ReportPaths, Resume, explain_json, explain_text, job_status_text,
    logs_json, print_logs, result_text,
};
use anyhow::{Context, anyhow};
use jiff::Timestamp;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;
/// The pause between two checks with `logs --follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);
/// The pause between two updates with `status --watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Updates every second, until the job has ended.
    #[arg(long)]
    watch: bool,
    /// Exits as `run` did: 0 if the job is completed, 42 if it failed, 130 if it was cancelled; 3 if it has
    /// not ended.
    #[arg(long)]
    exit_code: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Follows the output until the job ends; then exits as `status --exit-code` does.
    #[arg(short, long, conflicts_with_all = ["mini_batch", "json"])]
    follow: bool,
    /// Prints JSON, one object per line, with worker, kind, file and line; for a mini-batch, the events of
    /// its attempts.
    #[arg(long)]
    json: bool,
    /// Only the output of this worker's entry script, e.g. process003 or 3.
    #[arg(long, value_name = "NAME", conflicts_with = "mini_batch")]
    worker: Option<String>,
    /// Only this mini-batch: its attempts, their failures, and what was logged meanwhile.
    #[arg(long, value_name = "ID")]
    mini_batch: Option<u64>,
}

/// A job directory, and what is known about the job in it.
struct KnownJob {
    dir: JobDir,
    state: JobState,
    history: History,
    paths: ReportPaths,
}

fn load_job(path: &Path) -> Result<KnownJob, Problem> {
    let current_dir = std::env::current_dir()
        .context("the current folder cannot be found")
        .map_err(Problem::usage)?;
    let dir = JobDir::new(current_dir.join(path));
    let Some(state) = JobState::read(&dir).map_err(Problem::usage)? else {
        return Err(Problem::usage(anyhow!(
            "{} is not a job directory: it has no job.json; name the folder that `sandmill run` made \
             (jobs/<the job's name> unless --job-dir said otherwise)",
            path.display()
        )));
    };
    let history = match History::read(&dir) {
        Ok(history) => history,
        // The job has just begun.
        Err(error) if error.kind() == ErrorKind::NotFound => History::default(),
        Err(error) => {
            return Err(Problem::usage(anyhow!("{}: {error}", dir.events().display())));
        }
    };
    // The recorded path of the output is relative to the job directory if the output is in the job directory.
    let output = dir.root().join(&state.output);
    let rows = state.output_file.as_ref().map_or(output.clone(), |file| output.join(file));
    // The other fields are only for writing reports, which these commands do not do.
    let paths = ReportPaths {
        drops_rows: state.output_file.is_none(),
        resume: resume(&state),
        ..ReportPaths::new(state.name.clone(), dir.clone(), rows, current_dir)
    };
    Ok(KnownJob { dir, state, history, paths })
}

/// How to resume a job.
pub(super) fn resume(state: &JobState) -> Resume {
    let command = state.started_by.as_ref().map_or(&[][..], |by| &by.command);
    Resume::for_command(command, state.job_file.is_some())
}

impl KnownJob {
    fn now(&self) -> CurrentState {
        CurrentState::determine(&self.state, &self.history, is_locked(self.dir.root()))
    }
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
    let path = arguments.job.dir()?;
    loop {
        let found = load_job(&path)?;
        let now = found.now();
        let text = match arguments.json {
            true => status_json(&found, now),
            false => status_text(&found, now, &path),
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

fn status_text(found: &KnownJob, now: CurrentState, path: &Path) -> String {
    let KnownJob { state, history, paths, .. } = found;
    let (name, pid) = (&state.name, state.pid);
    let shown = shell_word(&path.display().to_string());
    let clock = Timestamp::now();
    match (&history.result, now) {
        (_, CurrentState::Running) => {
            let head = format!("Job {name} is running (process {pid}).\n");
            head + &job_status_text(history, true, clock)
        }
        (_, CurrentState::Waiting) => {
            let head = format!(
                "Job {name} is waiting for its turn (process {pid}): other jobs use all that this \
                 machine gives to jobs; sandmill jobs lists them.\n"
            );
            head + &job_status_text(history, true, clock)
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
                "Job {name} was interrupted: its process {pid} is gone. Committed results are kept; \
                 resume with: {}\n",
                resume(state).advice(&shown, "")
            );
            head + &job_status_text(history, false, clock)
        }
    }
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
        "version": VERSION,
        "job": state.name,
        "job_dir": found.dir.root(),
        "run": state.id,
        "tenant": state.started_by.as_ref().map_or(&history.tenant, |by| &by.tenant),
        "started_by": state.started_by,
        "status": now,
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
        "workers": workers,
        "output": found.paths.output,
        "result": history.result.as_ref().or(state.result.as_ref()).filter(|_| !now.is_live()),
    });
    format!("{value:#}\n")
}

/// Prints what went wrong and what to do.
pub(super) fn explain(arguments: &ExplainArguments) -> Result<Exit, Problem> {
    let found = load_job(&arguments.job.dir()?)?;
    if arguments.json {
        let KnownJob { state, history, paths, .. } = &found;
        let mut value = serde_json::json!({
            "version": VERSION,
            "job": state.name,
            "job_dir": found.dir.root(),
            "status": found.now(),
            "result": history.result.as_ref().or(state.result.as_ref()),
        });
        if let (Some(all), serde_json::Value::Object(more)) =
            (value.as_object_mut(), explain_json(history, paths))
        {
            all.extend(more);
        }
        print_json(&format!("{value:#}\n"))?;
        return Ok(Exit::Completed);
    }
    let running = is_locked(found.dir.root());
    print(&explain_text(&found.history, &found.paths, running))?;
    Ok(Exit::Completed)
}

/// Prints the output of the entry script, or the attempts at a mini-batch.
pub(super) fn logs(arguments: &LogArguments) -> Result<Exit, Problem> {
    let path = arguments.job.dir()?;
    let found = load_job(&path)?;
    let filter = match (&arguments.worker, arguments.mini_batch) {
        (_, Some(id)) => LogFilter::MiniBatch(MiniBatchId(id)),
        (Some(worker), None) => LogFilter::Worker(worker_name(worker).map_err(Problem::usage)?),
        (None, None) => LogFilter::All,
    };
    if arguments.follow {
        return match follow(&path, &filter) {
            // The reader of the pipe has read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Completed),
            Err(error) => Err(Problem::usage(error)),
            Ok(()) => Ok(exit_like_job(load_job(&path)?.now())),
        };
    }
    let printed = if arguments.json {
        let mut line = |value: &serde_json::Value| terminal::write_json_line(&value.to_string());
        logs_json(&found.dir, &filter, &mut line)
    } else {
        let mut out = BufWriter::new(terminal::stdout());
        let printed = print_logs(&found.dir, &filter, &mut out);
        printed.and_then(|found| out.flush().map(|()| found))
    };
    match printed {
        Ok(true) => Ok(Exit::Completed),
        Ok(false) => {
            say(&nothing_to_print(&filter, &path));
            Ok(Exit::Completed)
        }
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Completed),
        Err(error) => Err(Problem::usage(error)),
    }
}

/// Prints the output of entry scripts until the job has ended.
fn follow(path: &Path, filter: &LogFilter) -> io::Result<()> {
    let dir = JobDir::new(path);
    let worker = match filter {
        LogFilter::Worker(name) => Some(name.as_str()),
        LogFilter::All | LogFilter::MiniBatch(_) => None,
    };
    let mut follower = Follower::new(&dir, worker);
    let mut out = BufWriter::new(terminal::stdout());
    loop {
        // Check first whether the job has ended: then this round prints everything that it wrote.
        let is_last = !is_locked(path);
        follower.print_new(is_last, &mut out)?;
        out.flush()?;
        if is_last {
            return Ok(());
        }
        sleep(FOLLOW_INTERVAL);
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
fn nothing_to_print(filter: &LogFilter, dir: &Path) -> String {
    let job = shell_word(&dir.display().to_string());
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
