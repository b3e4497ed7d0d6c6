//! Files of failures, which are appended to and closed again.

use super::budget::ReportBudget;
use super::continued::continued;
use super::log_file::{FLUSH_EVERY, HELD, at};
use super::words::counted;
use crate::model::{is_full, is_plain, printable};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files of failures, too seldom written to be kept open. What a full disk has no room for waits, up to a limit;
/// what comes beyond that is counted, which its file tells once there is room.
pub(super) struct Appended {
    /// Bytes that one file holds, at most.
    most: u64,
    budget: ReportBudget,
    /// In the order in which they came.
    waiting: VecDeque<(PathBuf, String)>,
    waiting_bytes: usize,
    /// How many failures each file lacks.
    lost: BTreeMap<PathBuf, u64>,
    tried: Instant,
}

impl Appended {
    /// Files that hold so many bytes at most, and all together what the budget has room for.
    pub(super) fn new(most: u64, budget: &ReportBudget) -> Self {
        let waiting = VecDeque::new();
        let lost = BTreeMap::new();
        let budget = budget.clone();
        Self { most, budget, waiting, waiting_bytes: 0, lost, tried: Instant::now() }
    }

    /// Appends a failure to a file.
    pub(super) fn append(&mut self, path: PathBuf, text: String) -> io::Result<()> {
        let text = match is_plain(text.as_bytes()) {
            true => text,
            false => printable(&text).into_owned(),
        };
        if !self.budget.take(text.len()) {
            return Ok(());
        }
        if !self.waiting.is_empty() && self.waiting_bytes + text.len() > HELD {
            *self.lost.entry(path).or_default() += 1;
        } else {
            self.waiting_bytes += text.len();
            self.waiting.push_back((path, text));
        }
        self.flush()
    }

    /// Tries again now and then what there was no room for.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let is_held = !(self.waiting.is_empty() && self.lost.is_empty());
        let is_due = is_held && self.tried.elapsed() >= FLUSH_EVERY;
        if is_due { self.flush() } else { Ok(()) }
    }

    /// Writes what waits. What there is no room for is kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.tried = Instant::now();
        while let Some((path, text)) = self.waiting.front() {
            let written = append(path, text, self.most);
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
            let written = append(path, &text, self.most);
            if written.as_ref().is_err_and(is_full) {
                return written;
            }
            self.lost.pop_first();
            written?;
        }
        Ok(())
    }
}

/// Appends to a file unless it has `most` bytes. It is as before where that fails.
fn append(path: &Path, text: &str, most: u64) -> io::Result<()> {
    let write = || {
        let mut file = continued(path)?;
        let length = file.metadata()?.len();
        if length >= most {
            return Ok(());
        }
        let full = match length + text.len() as u64 >= most {
            true => "This file is full; later failures are in logs/sys/events.jsonl.\n",
            false => "",
        };
        file.write_all(format!("{text}{full}").as_bytes()).inspect_err(|_| {
            // Half of it would be there twice later on. Best effort.
            let _ = file.set_len(length);
        })
    };
    write().map_err(|error| at(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What there is no room for comes later, in its order, and with a mark of what is missing.
    #[test]
    #[cfg(target_os = "linux")]
    fn failures_wait_for_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process000.txt");
        let mut files = Appended::new(u64::MAX, &ReportBudget::default());
        for number in 0..6 {
            let text = format!("{number}{}\n", "-".repeat(HELD / 4 - 2));
            let written = files.append("/dev/full".into(), text);
            assert!(is_full(&written.unwrap_err()));
        }
        assert_eq!((files.waiting.len(), &files.lost), (4, &[("/dev/full".into(), 2)].into()));
        // There is room again.
        files.waiting.iter_mut().for_each(|(at, _)| path.clone_into(at));
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
