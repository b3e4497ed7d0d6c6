//! `logs/user/error.txt`, the digest of all failures, and `logs/user/error/<node>/<worker>.txt`,
//! each failure in full.

use super::log_file;
use super::reporters::Reporter;
use super::words::{counted, first_line, printable, worker_id};
use crate::event::{Event, EventKind};
use crate::model::{Failure, JobDir};
use jiff::Timestamp;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// The most that one worker's file holds.
const MOST_BYTES: u64 = 8 << 20;
/// The most kinds of failures that the digest tells apart.
const MOST_KINDS: usize = 100;
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// One line of the digest.
struct Entry {
    text: String,
    count: u64,
    first: String,
}

/// Writes both. There are no files where nothing failed.
pub(super) struct Errors {
    dir: JobDir,
    entries: Vec<Entry>,
    /// From an entry's text to its place in `entries`.
    known: HashMap<String, usize>,
    /// Failures for which the digest had no more room.
    others: u64,
    dirty: bool,
    written: Instant,
}

impl Errors {
    pub(super) fn new(dir: &JobDir) -> Self {
        Self {
            dir: dir.clone(),
            entries: Vec::new(),
            known: HashMap::new(),
            others: 0,
            dirty: false,
            written: Instant::now(),
        }
    }

    fn add(
        &mut self,
        worker: &str,
        at: Timestamp,
        what: &str,
        failure: &Failure,
    ) -> io::Result<()> {
        self.dirty = true;
        let text = format!("{}: {}", failure.kind, first_line(&failure.message));
        if let Some(&index) = self.known.get(&text) {
            self.entries[index].count += 1;
        } else if self.entries.len() < MOST_KINDS {
            self.known.insert(text.clone(), self.entries.len());
            self.entries.push(Entry { text, count: 1, first: format!("{what}, {worker}") });
        } else {
            self.others += 1;
        }
        let Some(worker) = worker_id(worker) else { return Ok(()) };
        let mut full =
            format!("{at:.3} {what}: {}\n{}\n", failure.kind, failure.message.trim_end());
        if !failure.detail.trim().is_empty() {
            full.push_str(failure.detail.trim_end());
            full.push('\n');
        }
        full.push('\n');
        log_file::append(&self.dir.worker_errors(worker), &printable(&full), MOST_BYTES)
    }

    fn digest(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            text.push_str(&format!("{}: {}\n", counted(entry.count, "time"), entry.text));
            text.push_str(&format!("  first in {}\n", entry.first));
        }
        if self.others > 0 {
            text.push_str(&format!("{}: other failures\n", counted(self.others, "time")));
        }
        text.push_str("Each failure in full: logs/user/error/<node>/<worker>.txt\n");
        text
    }

    fn write(&mut self) -> io::Result<()> {
        self.dirty = false;
        self.written = Instant::now();
        log_file::replace(&self.dir.user_errors(), &self.digest())
    }
}

impl Reporter for Errors {
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::InitFailed { worker, failure } => {
                self.add(worker, event.at, "init", failure)
            }
            EventKind::AttemptFinished { worker, report, location, .. } => {
                let Err(failure) = &report.outcome else { return Ok(()) };
                let (id, attempt) = (report.id, report.attempt);
                let what = format!("mini-batch {id}, attempt {attempt} ({location})");
                self.add(worker, event.at, &what, failure)
            }
            EventKind::JobFinished { .. } if self.dirty => self.write(),
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self) -> io::Result<()> {
        let due = self.dirty && self.written.elapsed() >= WRITE_EVERY;
        if due { self.write() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FailureKind, WorkerId};
    use crate::report::samples;

    #[test]
    fn a_digest_and_the_whole_story() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut errors = Errors::new(&dir);
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
    fn a_flood_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let mut errors = Errors::new(&JobDir::new(folder.path()));
        for id in 0..1000 {
            let failure = Failure::new(FailureKind::Trap, format!("no. {id}"));
            errors.on_event(&samples::event(id, samples::failed(id, 1, failure, false))).unwrap();
        }
        let digest = errors.digest();
        assert_eq!(digest.lines().count(), 2 * MOST_KINDS + 2);
        assert!(digest.contains("900 times: other failures"), "{digest}");
    }

    #[test]
    fn no_failure_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path());
        let mut errors = Errors::new(&dir);
        errors.on_event(&samples::event(0, samples::succeeded(0, 1, Vec::new()))).unwrap();
        let result = samples::result(crate::model::JobStatus::Completed);
        errors.on_event(&samples::event(1, EventKind::JobFinished { result })).unwrap();
        assert!(!dir.logs().exists());
    }
}
