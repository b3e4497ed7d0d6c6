//! The result in words: the last lines at the terminal, and `logs/job_result.txt`.

use super::log_file;
use super::reporters::Reporter;
use super::words::{count, counted, first_line, printable, seconds, worker_id};
use crate::event::{Event, EventKind};
use crate::model::{FailureKind, FirstFailure, JobDir, JobResult, JobStatus};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the files lie that a result points to.
#[derive(Clone, Debug)]
pub struct Places {
    /// The job's name.
    pub job: String,
    /// The job directory.
    pub job_dir: JobDir,
    /// The output file, or the output folder of a job that writes no output file.
    pub output: PathBuf,
    /// Whether rows are only counted (`summary_only`).
    pub drops_rows: bool,
    /// Files below this folder are shown relative to it: where the user stands.
    pub shown_from: PathBuf,
}

impl Places {
    pub(super) fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.shown_from) {
            Ok(below) if !below.as_os_str().is_empty() => below.display().to_string(),
            _ => path.display().to_string(),
        }
    }
}

/// The result as text, one or a few lines, with a line end. The same for terminal and log tree.
pub fn result_text(result: &JobResult, places: &Places) -> String {
    let mut text = Text::default();
    let took = seconds(result.seconds);
    let job = &places.job;
    match result.status {
        JobStatus::Completed => {
            text.title(&format!("Job {job} completed in {took}."));
            text.line("mini-batches", &mini_batches(result));
            text.line("items", &items(result, places));
            if result.rows > 0 {
                let dropped = if places.drops_rows { ", dropped (summary_only)" } else { "" };
                text.line("rows", &format!("{}{dropped}", count(result.rows)));
            }
            text.line("output", &places.show(&places.output));
        }
        JobStatus::Failed if result.never_began() => {
            text.title(&format!("Job {job} did not begin: {}", result.reason));
        }
        JobStatus::Failed => {
            text.title(&format!("Job {job} failed after {took}: {}", result.reason));
            if let Some(first) = &result.first_failure {
                first_cause(&mut text, first);
            }
            text.line("mini-batches", &mini_batches(result));
            text.line("items", &items(result, places));
            // If nothing was planned, the reason says all that is known.
            if result.first_failure.is_some() || result.mini_batches > 0 {
                text.line("read next", &places.show(&next_file(result, &places.job_dir)));
            }
        }
        JobStatus::Cancelled => {
            text.title(&format!("Job {job} was cancelled after {took}: {}", result.reason));
            text.line("mini-batches", &mini_batches(result));
            text.line("items", &items(result, places));
            let what = if places.drops_rows {
                "what the entry script wrote".to_owned()
            } else {
                counted(result.rows, "row")
            };
            let kept = format!("{what}, in {}", places.show(&places.output));
            text.line("kept", &kept);
        }
    }
    text.0
}

/// Collects a title and lines below it.
#[derive(Default)]
struct Text(String);

impl Text {
    fn title(&mut self, title: &str) {
        self.0.push_str(&printable(title.trim_end()));
        self.0.push('\n');
    }

    fn line(&mut self, label: &str, text: &str) {
        self.0.push_str(&format!("  {label:<13} {}\n", printable(text)));
    }
}

fn mini_batches(result: &JobResult) -> String {
    let ended = result.succeeded_mini_batches + result.failed_mini_batches;
    let planned = result.mini_batches.max(ended);
    let mut text = if ended == planned {
        count(planned)
    } else {
        format!("{} of {}", count(ended), count(planned))
    };
    if result.failed_mini_batches > 0 {
        text.push_str(&format!(", {} failed", count(result.failed_mini_batches)));
    }
    text
}

fn items(result: &JobResult, places: &Places) -> String {
    let items = &result.items;
    if items.failed == 0 {
        return count(items.total);
    }
    let list = places.job_dir.failed_items();
    format!(
        "{}, of which {} failed (see {})",
        count(items.total),
        count(items.failed),
        places.show(&list)
    )
}

fn first_cause(text: &mut Text, first: &FirstFailure) {
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
        let line = item.line.map(|line| format!(", line {line}")).unwrap_or_default();
        text.line("item", &format!("{}{line}", item.item));
    }
    if !place.is_empty() {
        text.line("where", &place.join(", "));
    }
}

/// The file that says most about the first cause.
fn next_file(result: &JobResult, dir: &JobDir) -> PathBuf {
    let Some(first) = &result.first_failure else { return dir.events() };
    if first.item.is_some() || first.failure.kind == FailureKind::LoadFailed {
        return dir.failed_items();
    }
    match first.worker.as_deref().and_then(worker_id) {
        Some(worker) => dir.worker_errors(worker),
        None => dir.events(),
    }
}

/// Writes `logs/job_result.txt`.
pub(super) struct ResultFile(Places);

impl ResultFile {
    pub(super) fn new(places: Places) -> Self {
        Self(places)
    }
}

impl Reporter for ResultFile {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let EventKind::JobFinished { result } = &event.kind else { return Ok(()) };
        log_file::replace(&self.0.job_dir.result_file(), &result_text(result, &self.0))
    }
}

/// Prints the result.
pub(super) struct ResultLines {
    places: Places,
    out: Box<dyn Write + Send>,
}

impl ResultLines {
    pub(super) fn new(places: Places, out: Box<dyn Write + Send>) -> Self {
        Self { places, out }
    }
}

impl Reporter for ResultLines {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        let EventKind::JobFinished { result } = &event.kind else { return Ok(()) };
        self.out.write_all(result_text(result, &self.places).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Failure, ItemCounts, MiniBatchId};
    use crate::report::samples;

    fn places() -> Places {
        Places {
            job: "digits".to_owned(),
            job_dir: JobDir::new("/home/ada/jobs/digits"),
            output: PathBuf::from("/home/ada/jobs/digits/output/parallel_run_step.txt"),
            drops_rows: false,
            shown_from: PathBuf::from("/home/ada"),
        }
    }

    fn text(result: &JobResult) -> String {
        result_text(result, &places())
    }

    #[test]
    fn completed() {
        let mut result = samples::result(JobStatus::Completed);
        insta::assert_snapshot!(text(&result), @r"
        Job digits completed in 3.2 s.
          mini-batches  180
          items         1,797
          rows          1,797
          output        jobs/digits/output/parallel_run_step.txt
        ");
        result.items = ItemCounts::from_returned(1797, 1790);
        result.rows = 0;
        insta::assert_snapshot!(text(&result), @r"
        Job digits completed in 3.2 s.
          mini-batches  180
          items         1,797, of which 7 failed (see jobs/digits/logs/failed_items.csv)
          output        jobs/digits/output/parallel_run_step.txt
        ");
    }

    #[test]
    fn failed() {
        insta::assert_snapshot!(text(&samples::result(JobStatus::Failed)), @r#"
        Job digits failed after 3.2 s: 10 items failed, more than error_threshold allows (0)
          first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
          where         mini-batch 2, process001
          mini-batches  3 of 180, 1 failed
          items         30, of which 10 failed (see jobs/digits/logs/failed_items.csv)
          read next     jobs/digits/logs/user/error/0/process001.txt
        "#);
    }

    #[test]
    fn failed_by_an_item() {
        let mut result = samples::result(JobStatus::Failed);
        result.items = ItemCounts::from_returned(30, 29);
        result.reason = "1 item failed, more than error_threshold allows (0)".to_owned();
        if let Some(first) = &mut result.first_failure {
            let mut item = samples::broken_item();
            item.line = Some(12);
            first.failure = Failure::new(FailureKind::ScriptError, item.reason.clone());
            first.item = Some(item);
        }
        insta::assert_snapshot!(text(&result), @r"
        Job digits failed after 3.2 s: 1 item failed, more than error_threshold allows (0)
          first cause   not a PNG file
          item          /inputs/images/img_0007.png, line 12
          where         mini-batch 2, process001
          mini-batches  3 of 180, 1 failed
          items         30, of which 1 failed (see jobs/digits/logs/failed_items.csv)
          read next     jobs/digits/logs/failed_items.csv
        ");
    }

    #[test]
    fn failed_before_the_first_mini_batch() {
        let mut result = samples::result(JobStatus::Failed);
        result.reason = "init failed in 6 workers in a row".to_owned();
        result.items = ItemCounts::default();
        (result.succeeded_mini_batches, result.failed_mini_batches) = (0, 0);
        if let Some(first) = &mut result.first_failure {
            first.mini_batch = None;
        }
        insta::assert_snapshot!(text(&result), @r#"
        Job digits failed after 3.2 s: init failed in 6 workers in a row
          first cause   panicked at src/lib.rs:12:9: no digit, "5" expected
          where         process001
          mini-batches  0 of 180
          items         0
          read next     jobs/digits/logs/user/error/0/process001.txt
        "#);
        result.first_failure = None;
        insta::assert_snapshot!(text(&result), @r"
        Job digits failed after 3.2 s: init failed in 6 workers in a row
          mini-batches  0 of 180
          items         0
          read next     jobs/digits/logs/sys/events.jsonl
        ");
        result.mini_batches = 0;
        result.reason = "input 'images': the folder data holds no file".to_owned();
        insta::assert_snapshot!(text(&result), @"Job digits did not begin: input 'images': the folder data holds no file");
    }

    #[test]
    fn rows_that_are_dropped_are_told_as_such() {
        let result = samples::result(JobStatus::Completed);
        let places = Places { output: "/home/ada/out".into(), drops_rows: true, ..places() };
        insta::assert_snapshot!(result_text(&result, &places), @r"
        Job digits completed in 3.2 s.
          mini-batches  180
          items         1,797
          rows          1,797, dropped (summary_only)
          output        out
        ");
    }

    #[test]
    fn cancelled() {
        let mut result = samples::result(JobStatus::Cancelled);
        result.reason = "interrupted with Ctrl-C".to_owned();
        result.succeeded_mini_batches = 40;
        result.items = ItemCounts::from_returned(400, 400);
        result.rows = 400;
        insta::assert_snapshot!(text(&result), @r"
        Job digits was cancelled after 3.2 s: interrupted with Ctrl-C
          mini-batches  40 of 180
          items         400
          kept          400 rows, in jobs/digits/output/parallel_run_step.txt
        ");
    }

    #[test]
    fn the_next_file_fits_the_cause() {
        let dir = JobDir::new("j");
        let next = |worker: Option<&str>, kind| {
            let mut result = samples::result(JobStatus::Failed);
            result.first_failure = Some(FirstFailure {
                mini_batch: Some(MiniBatchId(1)),
                worker: worker.map(str::to_owned),
                item: None,
                failure: Failure::new(kind, "x"),
            });
            next_file(&result, &dir).display().to_string()
        };
        assert_eq!(
            next(Some("process003"), FailureKind::Trap),
            "j/logs/user/error/0/process003.txt"
        );
        assert_eq!(next(Some("process003"), FailureKind::LoadFailed), "j/logs/failed_items.csv");
        assert_eq!(next(None, FailureKind::HostFault), "j/logs/sys/events.jsonl");
    }

    #[test]
    fn the_file_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places { job_dir: JobDir::new(folder.path()), ..places() };
        let mut file = ResultFile::new(places.clone());
        for event in samples::job() {
            file.on_event(&event).unwrap();
        }
        let written = std::fs::read_to_string(places.job_dir.result_file()).unwrap();
        assert_eq!(written, result_text(&samples::result(JobStatus::Failed), &places));
    }
}
