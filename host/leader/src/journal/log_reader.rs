//! Applies the records of a commit log to a journal.

use super::log_record::{DONE_PREFIX, FROM_LOG_NOTE, LogRecord, LogState};
use super::store::LogWrite;
use super::{Journal, JournalChanges, JournalError};
use crate::fail_point;
use crate::model::is_inside;
use sandmill_commit_log::{LogPosition, Record, Replay};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Applies the records of a log to a journal.
pub(super) struct LogReader {
    path: PathBuf,
    /// The journal, and the position of the last record that it includes.
    pub(super) journal: Option<(Journal, LogPosition)>,
    /// The number of the last record that the journal included at first. `None` if the journal is made again.
    pub(super) first: Option<u64>,
    /// The journal's job directory.
    own: String,
    /// The job directory of the leader that wrote the record.
    writer: String,
}

impl LogReader {
    pub(super) fn new(path: &Path, own: String) -> Self {
        Self { path: path.to_owned(), journal: None, first: None, own, writer: String::new() }
    }

    pub(super) fn read(&mut self, replay: Replay<'_>) -> Result<(), JournalError> {
        match replay {
            Replay::Snapshot { number, payload } => {
                // A snapshot has no nonce of its own record. The record after it has one.
                let at = LogPosition { number, nonce: String::new() };
                self.begin(at, &parse(number, payload)?)
            }
            Replay::Record { number, record } => self.read_record(number, record),
        }
    }

    fn read_record(&mut self, number: u64, record: &Record) -> Result<(), JournalError> {
        let at = record.position.clone();
        let (mut changes, status) = match parse(number, &record.payload)? {
            LogRecord::Begin(state) => return self.begin(at, &state),
            LogRecord::Lead { directory, .. } => {
                self.writer = directory;
                (JournalChanges::default(), None)
            }
            LogRecord::Superseded { .. } => (JournalChanges::default(), None),
            LogRecord::Changes(changes) => (changes, None),
            LogRecord::End { status, changes } => (changes, Some(status)),
        };
        check_paths(number, &changes)?;
        let Some((journal, position)) = &mut self.journal else {
            let what = "no state comes before it".to_owned();
            return Err(JournalError::UnknownRecord { number, what });
        };
        if number <= position.number {
            return check_same(position, &at);
        }
        // A leader may have been killed after it had appended the record, and before it wrote to its journal. If
        // that leader worked in this directory, the files of its workers are still here. A journal that lacks
        // more than one record is older than the directory says: it was restored from a copy, and the files
        // with it. It may also lack one record after that. The rows in part files have checksums, and other files
        // have not: they are made again.
        let is_next = self.first.is_some_and(|first| number == first + 1) && !has_files(&changes);
        if !is_next || self.writer != self.own {
            changes.notes.push((FROM_LOG_NOTE.to_owned(), Some(String::new())));
        }
        journal.write(&changes, status, LogWrite::Recorded(at.clone()))?;
        *position = at;
        fail_point::pass("record-applied");
        Ok(())
    }

    /// Makes the journal from this state, unless it includes more already.
    fn begin(&mut self, at: LogPosition, state: &LogState) -> Result<(), JournalError> {
        self.writer.clone_from(&state.directory);
        check_paths(at.number, &state.content)?;
        if let Some((_, position)) = &self.journal
            && position.number >= at.number
        {
            return check_same(position, &at);
        }
        // Closes the old journal first: only one can be open.
        self.journal = None;
        let journal = Journal::restore(&self.path, at.clone(), state)?;
        self.first = None;
        self.journal = Some((journal, at));
        Ok(())
    }
}

/// Whether the changes name files that wait in a worker's folder.
fn has_files(changes: &JournalChanges) -> bool {
    changes.entries.iter().any(|entry| entry.end.has_files())
        || changes.notes.iter().any(|(key, _)| key.starts_with(DONE_PREFIX))
}

/// Fails if the log has another record at the position of the journal's last one. A nonce is empty if it is
/// unknown.
fn check_same(position: &LogPosition, found: &LogPosition) -> Result<(), JournalError> {
    let is_known = !position.nonce.is_empty() && !found.nonce.is_empty();
    if is_known && position.number == found.number && position.nonce != found.nonce {
        let what = format!("has another record {}", found.number);
        return Err(JournalError::OtherLog { what });
    }
    Ok(())
}

/// Fails if a record names a file outside the output folder or the job directory.
fn check_paths(number: u64, changes: &JournalChanges) -> Result<(), JournalError> {
    for path in changes.files.iter().flat_map(|file| [&file.path, &file.source]) {
        if !is_inside(path.as_ref()) {
            let what = format!("it names the file {path:?}");
            return Err(JournalError::UnknownRecord { number, what });
        }
    }
    Ok(())
}

pub(super) fn parse<'a, T: Deserialize<'a>>(
    number: u64,
    payload: &'a [u8],
) -> Result<T, JournalError> {
    let parsed = serde_json::from_slice(payload);
    parsed.map_err(|error| JournalError::UnknownRecord { number, what: error.to_string() })
}
