//! `logs/user/error.txt`, the digest of all failures; `logs/job_error.txt`, the most frequent failures; and
//! `logs/user/error/<node>/<worker>.txt`, each failure in full.

use super::appended::FailureFiles;
use super::budget::ReportBudget;
use super::log_file;
use super::phrases::{counted, first_line, worker_id};
use super::reporters::Reporter;
use crate::event::{Event, EventKind};
use crate::model::{Failure, JobDir};
use crate::opening::regular;
use jiff::Timestamp;
use std::collections::HashMap;
use std::io::{self, Read};
use std::time::{Duration, Instant};

const MAX_WORKER_FILE_BYTES: u64 = 8 << 20;
/// The maximum number of kinds of failures in the digest.
const MAX_KINDS: usize = 100;
/// The maximum number of kinds of failures in `job_error.txt`.
const MAX_REPORTED_KINDS: usize = 10;
/// If the job is resumed, at most this many bytes of the earlier runs' digest are kept.
const MAX_EARLIER_BYTES: u64 = 64 << 10;
const WRITE_EVERY: Duration = Duration::from_secs(1);

struct DigestLine {
    text: String,
    count: u64,
    /// Where the failure occurred first.
    first: String,
    /// The file with the whole failure.
    file: Option<String>,
}

/// Writes the digest, the most frequent failures, and the files of the workers. Without failures, there are
/// no files.
pub(super) struct Errors {
    dir: JobDir,
    entries: Vec<DigestLine>,
    /// The index in `entries` of the entry with this text.
    entry_indexes: HashMap<String, usize>,
    /// The number of failures that are not in the digest, because it was full.
    others: u64,
    worker_files: FailureFiles,
    /// If the job is resumed: the digest of its earlier runs, and their most frequent failures.
    earlier: [String; 2],
    dirty: bool,
    written: Instant,
}

impl Errors {
    pub(super) fn new(dir: &JobDir, budget: &ReportBudget) -> Self {
        Self {
            dir: dir.clone(),
            entries: Vec::new(),
            entry_indexes: HashMap::new(),
            others: 0,
            worker_files: FailureFiles::new(MAX_WORKER_FILE_BYTES, budget),
            earlier: Default::default(),
            dirty: false,
            written: Instant::now(),
        }
    }

    fn add(
        &mut self,
        worker: &str,
        at: Timestamp,
        context: &str,
        failure: &Failure,
    ) -> io::Result<()> {
        self.dirty = true;
        let text = format!("{}: {}", failure.kind, first_line(&failure.message));
        if let Some(&index) = self.entry_indexes.get(&text) {
            self.entries[index].count += 1;
        } else if self.entries.len() < MAX_KINDS {
            self.entry_indexes.insert(text.clone(), self.entries.len());
            let first = format!("{context}, {worker}");
            let file = worker_id(worker).map(|id| self.dir.worker_errors(id));
            let file = file.as_deref().and_then(|file| file.strip_prefix(self.dir.root()).ok());
            let file = file.map(|file| file.display().to_string());
            self.entries.push(DigestLine { text, count: 1, first, file });
        } else {
            self.others += 1;
        }
        let Some(worker) = worker_id(worker) else { return Ok(()) };
        let mut full =
            format!("{at:.3} {context}: {}\n{}\n", failure.kind, failure.message.trim_end());
        if !failure.detail.trim().is_empty() {
            full.push_str(failure.detail.trim_end());
            full.push('\n');
        }
        full.push('\n');
        self.worker_files.append(self.dir.worker_errors(worker), full)
    }

    fn digest(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            entry.write_to(&mut text);
        }
        if self.others > 0 {
            text.push_str(&format!("{}: other failures\n", counted(self.others, "time")));
        }
        text.push_str("Each failure in full: logs/user/error/<node>/<worker>.txt\n");
        text + &self.earlier[0]
    }

    /// The most frequent failures, the most frequent first.
    fn summary(&self) -> String {
        let mut entries: Vec<&DigestLine> = self.entries.iter().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        let total = self.others + entries.iter().map(|entry| entry.count).sum::<u64>();
        let mut text = format!("{} so far, the most frequent first:\n", counted(total, "failure"));
        for entry in entries.iter().take(MAX_REPORTED_KINDS) {
            entry.write_to(&mut text);
            if let Some(file) = &entry.file {
                text.push_str(&format!("  in full, with its stack if it has one: {file}\n"));
            }
        }
        if entries.len() > MAX_REPORTED_KINDS || self.others > 0 {
            text.push_str("There are more kinds in logs/user/error.txt\n");
        }
        text.push_str("Items that failed for good are in logs/failed_items.csv\n");
        text + &self.earlier[1]
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.dirty {
            return Ok(());
        }
        self.written = Instant::now();
        log_file::replace(&self.dir.job_errors(), &self.summary())?;
        log_file::replace(&self.dir.user_errors(), &self.digest())?;
        self.dirty = false;
        Ok(())
    }

    /// Each write replaces the whole file, so the text of earlier runs is kept here.
    fn keep_earlier(&mut self) {
        for (text, path) in
            self.earlier.iter_mut().zip([self.dir.user_errors(), self.dir.job_errors()])
        {
            // If there is no file, there were no failures.
            let Ok((file, _)) = regular(&path) else { continue };
            let mut bytes = Vec::new();
            if file.take(MAX_EARLIER_BYTES).read_to_end(&mut bytes).is_ok() && !bytes.is_empty() {
                *text = format!("\nEarlier runs:\n{}", String::from_utf8_lossy(&bytes));
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
    }
}

impl DigestLine {
    fn write_to(&self, text: &mut String) {
        text.push_str(&format!("{}: {}\n", counted(self.count, "time"), self.text));
        text.push_str(&format!("  first in {}\n", self.first));
    }
}

impl Reporter for Errors {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::JobStarted { resumed: Some(_), .. } => {
                self.keep_earlier();
                Ok(())
            }
            EventKind::InitFailed { worker, failure } => {
                self.add(worker, event.at, "init", failure)
            }
            EventKind::AttemptFinished { worker, report, location, .. } => {
                let Err(failure) = &report.outcome else { return Ok(()) };
                let id = report.id;
                let attempt = report.attempt;
                let context = format!("mini-batch {id}, attempt {attempt} ({location})");
                self.add(worker, event.at, &context, failure)
            }
            EventKind::JobFinished { .. } => {
                let digest = self.write();
                self.worker_files.flush().and(digest)
            }
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        let is_due = self.written.elapsed() >= WRITE_EVERY;
        let digest = if is_due { self.write() } else { Ok(()) };
        self.worker_files.tick().and(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FailureKind, WorkerId};
    use crate::samples;

    /// Rule F3 in docs/parallel-run-step.md: job_error.txt has the most frequent failures. A resumed job
    /// keeps the text of earlier runs.
    #[test]
    fn job_errors_keep_those_of_earlier_runs() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let events = samples::job();
        for events in [&events, &samples::job_again(), &samples::job_again()] {
            let mut errors = Errors::new(&dir, &ReportBudget::default());
            for event in events {
                errors.on_event(event).unwrap();
            }
        }
        let text = std::fs::read_to_string(dir.job_errors()).unwrap();
        insta::assert_snapshot!(text, @r#"
        2 failures so far, the most frequent first:
        2 times: trap: panicked at src/lib.rs:12:9: no digit, "5" expected
          first in mini-batch 2, attempt 1 (/inputs/images/img_0020.png and 9 more), process001
          in full, with its stack if it has one: logs/user/error/0/process001.txt
        Items that failed for good are in logs/failed_items.csv
        "#);
        let mut again = samples::job();
        again[0].kind = samples::resumed();
        let mut errors = Errors::new(&dir, &ReportBudget::default());
        for event in again {
            errors.on_event(&event).unwrap();
        }
        for path in [dir.job_errors(), dir.user_errors()] {
            let text = std::fs::read_to_string(path).unwrap();
            assert_eq!(text.matches("2 times: trap").count(), 2, "{text}");
            assert_eq!(text.matches("\nEarlier runs:\n").count(), 1, "{text}");
        }
    }

    /// Rule F16 in docs/parallel-run-step.md.
    #[test]
    fn a_digest_and_each_failure_in_full() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut errors = Errors::new(&dir, &ReportBudget::default());
        let failure = Failure::new(FailureKind::ScriptError, "no model in /side_inputs");
        let init = EventKind::InitFailed { worker: "process000".into(), failure };
        errors.on_event(&samples::event(0, init)).unwrap();
        for event in samples::job() {
            errors.on_event(&event).unwrap();
        }
        let read = |path| std::fs::read_to_string(path).unwrap();
        insta::assert_snapshot!(read(dir.user_errors()), @r#"
        1 time: script_error: no model in /side_inputs
          first in init, process000
        2 times: trap: panicked at src/lib.rs:12:9: no digit, "5" expected
          first in mini-batch 2, attempt 1 (/inputs/images/img_0020.png and 9 more), process001
        Each failure in full: logs/user/error/<node>/<worker>.txt
        "#);
        insta::assert_snapshot!(read(dir.worker_errors(WorkerId(1))), @r#"
        2026-11-21T10:00:00.000Z mini-batch 2, attempt 1 (/inputs/images/img_0020.png and 9 more): trap
        panicked at src/lib.rs:12:9: no digit, "5" expected
        wasm backtrace:
          0: digits::run

        2026-11-21T10:00:00.000Z mini-batch 2, attempt 2 (/inputs/images/img_0020.png and 9 more): trap
        panicked at src/lib.rs:12:9: no digit, "5" expected
        wasm backtrace:
          0: digits::run
        "#);
    }

    #[test]
    fn the_digest_of_many_failures_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut errors = Errors::new(&JobDir::new(folder.path()), &ReportBudget::default());
        for id in 0..1000 {
            let failure = Failure::new(FailureKind::Trap, format!("no. {id}"));
            errors.on_event(&samples::event(id, samples::failed(id, 1, failure, false))).unwrap();
        }
        let digest = errors.digest();
        assert_eq!(digest.lines().count(), 2 * MAX_KINDS + 2);
        assert!(digest.contains("900 times: other failures"), "{digest}");
    }

    #[test]
    fn there_is_no_file_without_failures() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut errors = Errors::new(&dir, &ReportBudget::default());
        errors.on_event(&samples::event(0, samples::succeeded(0, 1, Vec::new()))).unwrap();
        let result = samples::result(crate::model::JobStatus::Completed);
        errors.on_event(&samples::event(1, EventKind::JobFinished { result })).unwrap();
        assert!(!dir.logs().exists());
    }
}
