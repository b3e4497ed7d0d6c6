//! Informs other programs about a job: one program reads the job's events, and another is called when the job
//! has ended.

use super::exit::Problem;
use super::{say, terminal};
use crate::event::{Event, EventKind};
use crate::model::{JobDir, JobResult, JobStatus};
use crate::report::{ReportPaths, Reporter};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

/// Other programs that follow a job.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct FollowerArguments {
    /// Writes each event of the job to standard output (TARGET is -), a JSON object per line, as in
    /// logs/sys/events.jsonl.
    #[arg(long, value_name = "TARGET", value_parser = standard_output)]
    events: Option<()>,
    /// Prints the result of the job as JSON on standard output; with --events, as the last line.
    #[arg(long)]
    json: bool,
    /// Calls this program when the job has ended, without a shell and without arguments. Its environment has
    /// SANDMILL_JOB, SANDMILL_STATE (completed, failed or cancelled) and SANDMILL_DIR. This command waits for
    /// it.
    #[arg(long, value_name = "PROGRAM")]
    on_end: Option<PathBuf>,
}

fn standard_output(text: &str) -> Result<(), String> {
    (text == "-").then_some(()).ok_or_else(|| "expected -, for standard output".to_owned())
}

impl FollowerArguments {
    /// The reporter that writes events; `None` without `--events`.
    pub(super) fn reporter(&self) -> Option<Box<dyn Reporter>> {
        self.events.map(|()| Box::new(EventThread::new()) as _)
    }

    /// Prints the result, if `--json` is given. `reused`: whether this is the result of an earlier run.
    pub(super) fn print(
        &self,
        paths: &ReportPaths,
        result: &JobResult,
        reused: bool,
    ) -> Result<(), Problem> {
        if !self.json {
            return Ok(());
        }
        let value = serde_json::json!({
            "version": VERSION,
            "job": paths.job,
            "job_dir": paths.job_dir.root(),
            "output": paths.output,
            "reused": reused,
            "result": result,
        });
        match self.events {
            Some(()) => terminal::print_json(&format!("{value}\n")),
            None => terminal::print_json(&format!("{value:#}\n")),
        }
    }

    /// Calls the program of `--on-end`, if there is one. If it fails, we only print a warning.
    pub(super) fn call(&self, job: &str, job_dir: &JobDir, status: JobStatus) {
        if let Some(program) = &self.on_end
            && let Err(why) = call(program, job, job_dir, status)
        {
            say(&format!("warning: --on-end {}: {why}", program.display()));
        }
    }
}

fn call(program: &Path, job: &str, job_dir: &JobDir, status: JobStatus) -> Result<(), String> {
    let mut command = Command::new(program);
    command.env("SANDMILL_JOB", job).env("SANDMILL_STATE", status.to_string());
    let dir = std::path::absolute(job_dir.root()).unwrap_or_else(|_| job_dir.root().to_owned());
    command.env("SANDMILL_DIR", dir).stdin(Stdio::null());
    // Our standard output is only for events, so the program writes to our standard error.
    command.stdout(terminal::for_children());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("it ended with {status}")),
        Err(error) => Err(format!("it cannot be started: {error}")),
    }
}

/// At most this many events wait for a slow reader. If there are more, the job waits for the reader.
const MAX_WAITING_EVENTS: usize = 10_000;

/// A reporter that passes events to a thread, which writes them. So the leader rarely waits for the reader.
struct EventThread {
    /// `None` after the last event.
    lines: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
}

impl EventThread {
    fn new() -> Self {
        let (lines, written) = sync_channel::<String>(MAX_WAITING_EVENTS);
        let writer = std::thread::Builder::new().name("events".to_owned()).spawn(move || {
            // A closed pipe does not stop the job.
            while let Ok(line) = written.recv() {
                if terminal::write_json_line(&line).is_err() {
                    return;
                }
            }
        });
        Self { lines: Some(lines), writer: writer.ok() }
    }
}

impl Reporter for EventThread {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let line = serde_json::to_string(event)?;
        if let Some(lines) = &self.lines {
            // Fails if the thread has ended because the pipe was closed.
            let _ = lines.send(line);
        }
        if let EventKind::JobFinished { .. } = event.kind {
            self.lines = None;
            // A panic of the thread has already been printed.
            let _ = self.writer.take().map(JoinHandle::join);
        }
        Ok(())
    }
}
