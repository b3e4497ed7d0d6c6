//! The result in words: the last lines at the terminal, and `logs/job_result.txt`.

use super::advice::{ended_by_name, leader_gave_up, result_advice};
use super::log_file;
use super::phrases::{
    count, counted, failed_and_short, first_line, seconds, status_phrase, worker_id,
};
use super::report_paths::ReportPaths;
use super::reporters::Reporter;
use super::usage_text::{receipts_text, usage_text};
use crate::event::{Event, EventKind};
use crate::model::{FailureKind, FirstFailure, JobDir, JobResult, JobStatus, printable};
use jiff::Timestamp;
use std::io::{self, Write};
use std::path::PathBuf;

/// The result as text, one or a few lines, with a line end. The terminal and the log tree get the same text.
pub fn result_text(result: &JobResult, paths: &ReportPaths) -> String {
    let mut text = ResultText::default();
    let took = seconds(result.seconds);
    let job = &paths.job;
    match result.status {
        JobStatus::Completed => {
            text.title(&format!("Job {job} completed in {took}."));
            add_counts(&mut text, result, paths);
            add_inference(&mut text, result);
            text.line("output", &paths.show(&paths.output));
        }
        JobStatus::Failed if result.never_began() => {
            text.title(&format!("Job {job} did not begin: {}", result.reason));
        }
        JobStatus::Failed => {
            text.title(&format!("Job {job} failed after {took}: {}", result.reason));
            if let Some(first) = &result.first_failure {
                add_first_cause(&mut text, first);
            }
            text.line("mini-batches", &mini_batches_text(result));
            add_late(&mut text, result);
            text.line("items", &items_text(result, paths));
            add_inference(&mut text, result);
            if result.rows > 0 {
                add_kept_rows(&mut text, result, paths);
            }
            // If nothing was planned, the reason says everything.
            let ended = result.succeeded_mini_batches + result.failed_mini_batches;
            if result.first_failure.is_some() || result.mini_batches.max(ended) > 0 {
                text.line("read next", &paths.show(&next_file(result, &paths.job_dir)));
                add_advice(&mut text, result, paths);
            }
        }
        JobStatus::Cancelled => {
            text.title(&format!("Job {job} was cancelled after {took}: {}", result.reason));
            text.line("mini-batches", &mini_batches_text(result));
            add_late(&mut text, result);
            text.line("items", &items_text(result, paths));
            add_inference(&mut text, result);
            add_kept_rows(&mut text, result, paths);
            add_advice(&mut text, result, paths);
        }
    }
    if let Some(left_out) = paths.reports.left_out_text() {
        text.line("reports", &left_out);
    }
    text.0
}

/// Adds how often the job's models ran, where, and whether a model for a GPU ran on the CPU.
fn add_inference(text: &mut ResultText, result: &JobResult) {
    let stats = &result.inference;
    let Some(device) = stats.device else { return };
    let calls = counted(stats.calls, "call");
    let mut line = format!("{calls} on {device}");
    if !stats.backends.is_empty() {
        line.push_str(&format!(" by {}", stats.backends));
    }
    line.push_str(&format!(", {}", seconds(stats.seconds)));
    if stats.fell_back {
        line.push_str("; a model that is meant for a GPU fell back to cpu, as the job allows");
    }
    text.line("inference", &line);
    if !result.mixed_backends.is_empty() {
        let others = result.mixed_backends.join("; ");
        text.line(
            "mixed",
            &format!("some nodes computed models by {others} (allow_mixed_backends)"),
        );
    }
}

/// Adds what remains of a job that did not complete.
fn add_kept_rows(text: &mut ResultText, result: &JobResult, paths: &ReportPaths) {
    let what = if paths.drops_rows {
        "what the entry script wrote".to_owned()
    } else {
        counted(result.rows, "row")
    };
    text.line("kept", &format!("{what}, in {}", paths.show(&paths.rows_path())));
}

/// Adds what the user can do now.
fn add_advice(text: &mut ResultText, result: &JobResult, paths: &ReportPaths) {
    let job = paths.job_word();
    if let Some(advice) = result_advice(result, paths) {
        text.line("what to do", &advice);
    }
    if result.status == JobStatus::Failed {
        text.line("next command", &format!("sandmill explain {job}"));
    }
}

/// The lines that `logs/job_result.txt` has in addition to [`result_text`]: the names of the causes (for
/// programs), the sandbox of the workers, the runtime of the entry script, and what the job has used in all its runs.
fn machine_readable_causes(result: &JobResult) -> String {
    let mut text = ResultText::default();
    if let Some(ended_by) = result.ended_by {
        text.line("ended by", &ended_by_name(ended_by));
    }
    if let Some(first) = &result.first_failure {
        let kind = first.failure.kind;
        text.line("kind", &format!("{kind}, {}", kind.status_word()));
    }
    // The list is empty if no worker was ever ready.
    if !result.os_sandbox.active.is_empty() {
        text.line("os_sandbox", &result.os_sandbox.to_string());
    }
    if let Some(runtime) = &result.runtime {
        text.line("runtime", runtime);
    }
    if let Some(receipts) = &result.receipts {
        text.line("receipts", &receipts_text(receipts));
        text.line("used", &usage_text(&receipts.billable));
        if receipts.not_billable.attempts > 0 {
            text.line("not billed", &usage_text(&receipts.not_billable));
        }
    }
    text.0
}

/// The line of `logs/job_result.txt` with the job's description from the job file.
fn description(paths: &ReportPaths) -> String {
    let mut text = ResultText::default();
    let line = first_line(&paths.description);
    if !line.is_empty() {
        text.line("description", &line);
    }
    text.0
}

/// The text for a job that is not run because its earlier result is still valid: one or a few lines, with a
/// line end. `ended` is when the earlier run ended.
pub fn reused_text(result: &JobResult, ended: Timestamp, paths: &ReportPaths) -> String {
    let mut text = ResultText::default();
    let job = &paths.job;
    text.title(&format!(
        "Job {job} {}: result of {ended:.0} reused, as nothing has changed since (--overwrite runs it \
         again)",
        status_phrase(result.status)
    ));
    add_counts(&mut text, result, paths);
    text.line("output", &paths.show(&paths.output));
    text.0
}

fn add_counts(text: &mut ResultText, result: &JobResult, paths: &ReportPaths) {
    text.line("mini-batches", &mini_batches_text(result));
    add_late(text, result);
    text.line("items", &items_text(result, paths));
    if result.rows > 0 {
        let dropped = if paths.drops_rows { ", dropped (summary_only)" } else { "" };
        text.line("rows", &format!("{}{dropped}", count(result.rows)));
    }
}

/// Collects a title and lines below it.
#[derive(Default)]
struct ResultText(String);

impl ResultText {
    fn title(&mut self, title: &str) {
        self.0.push_str(&printable(title.trim_end()));
        self.0.push('\n');
    }

    fn line(&mut self, label: &str, text: &str) {
        self.0.push_str(&format!("  {label:<13} {}\n", printable(text)));
    }
}

fn mini_batches_text(result: &JobResult) -> String {
    let ended = result.succeeded_mini_batches + result.failed_mini_batches;
    let planned = result.mini_batches.max(ended);
    let mut text = if ended == planned {
        count(planned)
    } else {
        format!("{} of {}", count(ended), count(planned))
    };
    text.push_str(&failed_and_short(result.failed_mini_batches, result.short_mini_batches));
    if result.restored_mini_batches > 0 {
        let restored = count(result.restored_mini_batches);
        let verb = if result.restored_mini_batches == 1 { "was" } else { "were" };
        text.push_str(&format!("; {restored} {verb} done by an earlier run"));
    }
    text
}

/// Adds the number of attempts that ended after Sandmill had stopped waiting for them.
fn add_late(text: &mut ResultText, result: &JobResult) {
    if result.late_attempts > 0 {
        let late = counted(result.late_attempts, "attempt");
        let why =
            "ended after Sandmill had stopped waiting (a time-out, say); the rows do not count";
        text.line("too late", &format!("{late} {why}"));
    }
}

fn items_text(result: &JobResult, paths: &ReportPaths) -> String {
    let items = &result.items;
    if items.failed == 0 {
        return count(items.total);
    }
    let list = paths.job_dir.failed_items();
    format!(
        "{}, of which {} failed (see {})",
        count(items.total),
        count(items.failed),
        paths.show(&list)
    )
}

fn add_first_cause(text: &mut ResultText, first: &FirstFailure) {
    let mut place = Vec::new();
    if let Some(id) = first.mini_batch {
        place.push(format!("mini-batch {id}"));
    }
    if let Some(worker) = &first.worker {
        place.push(worker.clone());
    }
    let cause = match &first.item {
        Some(item) => first_line(&item.reason),
        None => first_line(&first.failure.message),
    };
    text.line("first cause", &cause);
    if let Some(item) = &first.item {
        let place = match (item.line, item.row) {
            (Some(line), _) => format!(", line {line}"),
            (None, Some(row)) => format!(", row {row}"),
            (None, None) => String::new(),
        };
        text.line("item", &format!("{}{place}", item.item));
    }
    if !place.is_empty() {
        text.line("where", &place.join(", "));
    }
}

/// The path of the file that says most about the first cause.
fn next_file(result: &JobResult, dir: &JobDir) -> PathBuf {
    if leader_gave_up(result.ended_by) {
        return dir.leader_errors();
    }
    let Some(first) = &result.first_failure else {
        // If there were failures, they were in an earlier run.
        return if result.items.failed > 0 { dir.failed_items() } else { dir.events() };
    };
    let of_items = [FailureKind::LoadFailed, FailureKind::BadInput, FailureKind::ShortResults];
    if first.item.is_some() || of_items.contains(&first.failure.kind) {
        return dir.failed_items();
    }
    match first.worker.as_deref().and_then(worker_id) {
        Some(worker) => dir.worker_errors(worker),
        None => dir.events(),
    }
}

/// Writes `logs/job_result.txt`.
pub(super) struct ResultFile(ReportPaths);

impl ResultFile {
    pub(super) fn new(paths: ReportPaths) -> Self {
        Self(paths)
    }
}

impl Reporter for ResultFile {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let file = || self.0.job_dir.result_file();
        match &event.kind {
            // The text says that this is the result of an earlier run, and not the current state.
            EventKind::JobStarted { job, resumed: Some(_), .. } => {
                let before = match std::fs::read_to_string(file()) {
                    Ok(before) => format!("Result of the previous run:\n\n{before}"),
                    Err(_) => "The previous run was cut short.\n".to_owned(),
                };
                let text =
                    format!("Job {job} has been running again since {:.0}. {before}", event.at);
                log_file::replace(&file(), &text)
            }
            EventKind::JobFinished { result } => {
                let more = description(&self.0) + &machine_readable_causes(result);
                let text = result_text(result, &self.0) + &more;
                log_file::replace(&file(), &text)
            }
            _ => Ok(()),
        }
    }
}

/// Prints the result at the end of the job.
pub(super) struct ResultLines {
    paths: ReportPaths,
    /// Whether the result of a completed job is printed, too.
    shows_completed: bool,
    out: Box<dyn Write + Send>,
}

impl ResultLines {
    pub(super) fn new(
        paths: ReportPaths,
        shows_completed: bool,
        out: Box<dyn Write + Send>,
    ) -> Self {
        Self { paths, shows_completed, out }
    }
}

impl Reporter for ResultLines {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let EventKind::JobFinished { result } = &event.kind else { return Ok(()) };
        if !self.shows_completed && result.status == JobStatus::Completed {
            return Ok(());
        }
        self.out.write_all(result_text(result, &self.paths).as_bytes())
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
