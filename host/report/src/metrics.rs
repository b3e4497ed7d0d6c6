//! `logs/sys/metrics/metrics.jsonl`: the job's metrics, one JSON object per line. Also writes the last values
//! for the parent.

use super::counters::JobCounters;
use super::log_file::{self, LogFile};
use super::report_paths::{ParentFolder, ReportPaths};
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{JobResult, printable_json, to_f64};
use crate::opening::at_its_path;
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

const WRITE_EVERY: Duration = Duration::from_secs(60);
/// The file for the parent job, in this job's folder among the parent's logs.
const PARENT_FILE_NAME: &str = "metrics.jsonl";

/// A line of the file.
#[derive(Serialize)]
struct Metric<'a> {
    name: String,
    value: f64,
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
}

/// Writes the file every minute and at the end. Also appends the last values to the parent's file, if the job
/// file asks for that.
pub(super) struct Metrics {
    paths: ReportPaths,
    file: LogFile,
    counters: JobCounters,
    began: Timestamp,
    written: Instant,
    is_running: bool,
}

impl Metrics {
    pub(super) fn new(paths: ReportPaths) -> Self {
        Self {
            file: LogFile::json(paths.job_dir.metrics()),
            paths,
            counters: JobCounters::default(),
            began: Timestamp::UNIX_EPOCH,
            written: Instant::now(),
            is_running: false,
        }
    }

    /// Each mini-batch is counted once, however many attempts it took (docs/parallel-run-step.md, Columns).
    fn values(&self, at: Timestamp, result: Option<&JobResult>) -> [(&'static str, f64); 9] {
        let counters = &self.counters;
        let elapsed = at.duration_since(self.began).as_secs_f64().max(0.0);
        let seconds = result.map_or(elapsed, |result| result.seconds);
        [
            ("total_mini_batches", to_f64(counters.planned)),
            ("processed_mini_batches", to_f64(counters.done)),
            ("failed_mini_batches", to_f64(counters.failed_now())),
            ("short_mini_batches", to_f64(counters.short)),
            ("total_items", to_f64(counters.items.total)),
            ("failed_items", to_f64(counters.failed_items_now())),
            ("rows", to_f64(counters.rows)),
            ("retries", to_f64(counters.retries)),
            ("seconds", seconds),
        ]
    }

    fn lines(
        &self,
        at: Timestamp,
        result: Option<&JobResult>,
        job: Option<&str>,
    ) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for (name, value) in self.values(at, result) {
            let name = format!("{}{name}", self.paths.metrics_name_prefix);
            let time = at;
            serde_json::to_writer(&mut lines, &Metric { name, value, time, job })?;
            lines.push(b'\n');
        }
        Ok(lines)
    }

    fn write(&mut self, at: Timestamp, result: Option<&JobResult>) -> io::Result<()> {
        self.written = Instant::now();
        let lines = self.lines(at, result, None)?;
        self.file.write(&lines)?;
        self.file.flush()
    }

    /// Rule A8 in docs/parallel-run-step.md: appends the last values to the parent's file.
    fn append_to_parent(&self, at: Timestamp, result: &JobResult) -> io::Result<()> {
        let Some(ParentFolder { folder, push_metrics: true, .. }) = &self.paths.parent else {
            return Ok(());
        };
        let lines = self.lines(at, Some(result), Some(&self.paths.job))?;
        let path = folder.join(PARENT_FILE_NAME);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        let opened = at_its_path(&path, flags, Mode::RUSR | Mode::WUSR);
        let lines = String::from_utf8_lossy(&lines);
        let lines = printable_json(&lines);
        let written = opened.and_then(|file| File::from(file).write_all(lines.as_bytes()));
        written.map_err(|error| log_file::with_path(&path, &error))
    }
}

impl Reporter for Metrics {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        self.counters.update(&event.kind);
        match &event.kind {
            EventKind::JobStarted { .. } => {
                self.began = event.at;
                self.is_running = true;
                Ok(())
            }
            EventKind::JobFinished { result } => {
                self.is_running = false;
                self.write(event.at, Some(result))?;
                self.append_to_parent(event.at, result)
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        let is_due = self.is_running && self.written.elapsed() >= WRITE_EVERY;
        if is_due { self.write(Timestamp::now(), None) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn run(paths: &ReportPaths) -> String {
        let mut metrics = Metrics::new(paths.clone());
        for event in samples::job() {
            metrics.on_event(&event).unwrap();
        }
        std::fs::read_to_string(paths.job_dir.metrics()).unwrap()
    }

    /// A7, K3: the metrics count mini-batches, not attempts, and their names have the prefix.
    #[test]
    fn counts_mini_batches_and_not_attempts() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ReportPaths {
            metrics_name_prefix: "night_".to_owned(),
            ..samples::paths(folder.path())
        };
        insta::assert_snapshot!(run(&paths), @r#"
        {"name":"night_total_mini_batches","value":180.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_processed_mini_batches","value":3.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_failed_mini_batches","value":1.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_short_mini_batches","value":1.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_total_items","value":30.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_failed_items","value":10.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_rows","value":20.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_retries","value":1.0,"time":"2026-11-21T10:00:00Z"}
        {"name":"night_seconds","value":3.21,"time":"2026-11-21T10:00:00Z"}
        "#);
    }

    /// A8: the parent gets the metrics too; each run of the job appends its own.
    #[test]
    fn the_parent_gets_the_metrics_too() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().canonicalize().unwrap().join("parent");
        std::fs::create_dir(&parent).unwrap();
        let mut paths = samples::paths(&folder.path().join("job"));
        paths.parent =
            Some(ParentFolder { folder: parent.clone(), copy_logs: false, push_metrics: true });
        run(&paths);
        run(&paths);
        let text = std::fs::read_to_string(parent.join("metrics.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 2 * 9);
        let first = r#"{"name":"total_mini_batches","value":180.0,"time":"2026-11-21T10:00:00Z","job":"digits"}"#;
        assert_eq!(text.lines().next(), Some(first));
        paths.parent =
            Some(ParentFolder { folder: parent.join("b"), copy_logs: true, push_metrics: false });
        run(&paths);
        assert!(!parent.join("b").exists());
    }
}
