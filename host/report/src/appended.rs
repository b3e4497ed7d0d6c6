//! Log files of failures. A file is open only while a failure is written to it.

use super::budget::ReportBudget;
use super::continued::open_to_append;
use super::log_file::{FLUSH_EVERY, MAX_WAITING_BYTES, with_path};
use super::phrases::counted;
use crate::model::{is_full, is_plain, printable};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Log files of failures. They are written too rarely to be kept open. If the disk is full, failures wait, up
/// to a limit. Failures beyond the limit are only counted. Once the disk has room again, their file gets a
/// note with the count.
pub(super) struct FailureFiles {
    /// The size at which a file is full, in bytes.
    max_bytes: u64,
    budget: ReportBudget,
    /// The failures that wait, each with its file, in the order of arrival.
    waiting: VecDeque<(PathBuf, String)>,
    waiting_bytes: usize,
    /// For each file, the number of failures that could not be written to it.
    lost: BTreeMap<PathBuf, u64>,
    last_try: Instant,
}

impl FailureFiles {
    /// Creates log files that are full at `max_bytes` each, and share the budget.
    pub(super) fn new(max_bytes: u64, budget: &ReportBudget) -> Self {
        let waiting = VecDeque::new();
        let lost = BTreeMap::new();
        let budget = budget.clone();
        Self { max_bytes, budget, waiting, waiting_bytes: 0, lost, last_try: Instant::now() }
    }

    pub(super) fn append(&mut self, path: PathBuf, text: String) -> io::Result<()> {
        let text = match is_plain(text.as_bytes()) {
            true => text,
            false => printable(&text).into_owned(),
        };
        if !self.budget.try_take(text.len()) {
            return Ok(());
        }
        if !self.waiting.is_empty() && self.waiting_bytes + text.len() > MAX_WAITING_BYTES {
            *self.lost.entry(path).or_default() += 1;
        } else {
            self.waiting_bytes += text.len();
            self.waiting.push_back((path, text));
        }
        self.flush()
    }

    /// Retries waiting failures now and then.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let has_waiting = !(self.waiting.is_empty() && self.lost.is_empty());
        let is_due = has_waiting && self.last_try.elapsed() >= FLUSH_EVERY;
        if is_due { self.flush() } else { Ok(()) }
    }

    /// Writes the waiting failures. If the disk is full, the rest is kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.last_try = Instant::now();
        while let Some((path, text)) = self.waiting.front() {
            let written = append(path, text, self.max_bytes);
            if written.as_ref().is_err_and(is_full) {
                return written;
            }
            self.waiting_bytes -= text.len();
            self.waiting.pop_front();
            written?;
        }
        while let Some((path, count)) = self.lost.first_key_value() {
            let text = format!(
                "Missing here, as the disk was full: {}. Each attempt is in logs/sys/events.jsonl, as far \
                 as there was room.\n\n",
                counted(*count, "failure")
            );
            let written = append(path, &text, self.max_bytes);
            if written.as_ref().is_err_and(is_full) {
                return written;
            }
            self.lost.pop_first();
            written?;
        }
        Ok(())
    }
}

/// Appends to a file, unless it already has `max_bytes` bytes. If that fails, the file stays unchanged.
fn append(path: &Path, text: &str, max_bytes: u64) -> io::Result<()> {
    let write = || {
        let mut file = open_to_append(path)?;
        let length = file.metadata()?.len();
        if length >= max_bytes {
            return Ok(());
        }
        let full = match length + text.len() as u64 >= max_bytes {
            true => "This file is full; later failures are in logs/sys/events.jsonl.\n",
            false => "",
        };
        file.write_all(format!("{text}{full}").as_bytes()).inspect_err(|_| {
            // A partial text would be in the file twice after a retry. Best effort.
            let _ = file.set_len(length);
        })
    };
    write().map_err(|error| with_path(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Waiting failures are written later, in order, with a note about what is missing.
    #[test]
    #[cfg(target_os = "linux")]
    fn failures_wait_for_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process000.txt");
        let mut files = FailureFiles::new(u64::MAX, &ReportBudget::default());
        for number in 0..6 {
            let text = format!("{number}{}\n", "-".repeat(MAX_WAITING_BYTES / 4 - 2));
            let written = files.append("/dev/full".into(), text);
            assert!(is_full(&written.unwrap_err()));
        }
        assert_eq!((files.waiting.len(), &files.lost), (4, &[("/dev/full".into(), 2)].into()));
        // There is room again.
        files.waiting.iter_mut().for_each(|(waiting, _)| path.clone_into(waiting));
        files.lost = [(path.clone(), 2)].into();
        files.flush().unwrap();
        assert_eq!((files.waiting.len(), files.waiting_bytes, files.lost.len()), (0, 0, 0));
        let text = fs::read_to_string(&path).unwrap().replace('-', "");
        insta::assert_snapshot!(text, @"
        0
        1
        2
        3
        Missing here, as the disk was full: 2 failures. Each attempt is in logs/sys/events.jsonl, as far as there was room.
        ");
    }

    #[test]
    fn appending_stops_at_the_cap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.txt");
        for _ in 0..100 {
            append(&path, "0123456789\n", 30).unwrap();
        }
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.matches("0123456789").count(), 3);
        assert!(text.ends_with("events.jsonl.\n"));
    }
}
