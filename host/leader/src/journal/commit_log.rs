//! The journal of a job that has a store. The commit log in the store decides what counts, and the journal is
//! this machine's view of it: each change is a record of the log before it is in the journal. So the journal
//! can be made again from the log, also on another machine.

use super::log_record::{LogRecord, LogState, POSITION_KEY};
use super::store::{LogPosition, keep_private};
use super::{EntryOrder, Journal, JournalChanges, JournalError};
use sandmill_commit_log::{CommitLog, LogError, Replay, RunLog, Writer};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tracing::warn;

/// The journal's note that it includes records of another process. The files that these records name may be on
/// another machine.
const FROM_LOG_NOTE: &str = "from_log";

/// What a commit log says about its job, besides the journal's content.
#[derive(Debug, Default)]
pub struct LogSummary {
    /// As in [`LogState::job_state`].
    pub job_state: Value,
    /// The process that wrote the last record. `None` if a snapshot includes all records.
    pub writer: Option<Writer>,
    /// Whether the job has been started over, so that this run of it has no meaning any longer.
    pub is_superseded: bool,
}

impl LogSummary {
    /// Reads a log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn read(run: &RunLog) -> Result<Self, JournalError> {
        let mut summary = Self::default();
        run.replay::<JournalError>(&mut |replay| {
            let (number, record) = match replay {
                Replay::Snapshot { number, payload } => {
                    let state: LogState = parse(number, payload)?;
                    summary.job_state = state.job_state;
                    return Ok(());
                }
                Replay::Record { number, record } => (number, record),
            };
            summary.writer = Some(record.writer.clone());
            match parse(number, &record.payload)? {
                LogRecord::Begin(state) => summary.job_state = state.job_state,
                LogRecord::Lead { job_state } => summary.job_state = job_state,
                LogRecord::Superseded { .. } => summary.is_superseded = true,
                LogRecord::Changes(_) | LogRecord::End { .. } => {}
            }
            Ok(())
        })?;
        Ok(summary)
    }
}

impl Journal {
    /// Makes the journal at `path` include everything in the log. The journal may be missing, or older than
    /// the log. Returns the log, ready for the next record.
    ///
    /// # Errors
    /// If the log or the journal cannot be read, or the journal cannot be written.
    pub fn catch_up(path: &Path, run: &RunLog) -> Result<CommitLog, JournalError> {
        let mut reader = LogReader { path: path.to_owned(), journal: None };
        if path.exists() {
            let journal = Self::open(path)?;
            let position = journal.log_position()?;
            reader.journal = position.map(|position| (journal, position));
        }
        run.replay::<JournalError>(&mut |replay| match replay {
            Replay::Snapshot { number, payload } => reader.begin(number, &parse(number, payload)?),
            Replay::Record { number, record } => {
                reader.read(number, parse(number, &record.payload)?)
            }
        })
    }

    /// The state of the job, for a log that begins, or for a snapshot.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn log_state(&self, job_state: Value) -> Result<LogState, JournalError> {
        let mut content = JournalChanges { files: self.files()?, ..JournalChanges::default() };
        self.for_each(EntryOrder::Commit, |committed| content.entries.push(committed.entry))?;
        content.notes =
            self.notes("")?.into_iter().map(|(key, value)| (key, Some(value))).collect();
        Ok(LogState { job_state, job: self.job()?, content, status: self.finished()? })
    }

    /// Connects the journal to a log. This process leads the job from now on: writes that to the log, if
    /// the log has begun before.
    ///
    /// # Errors
    /// If another process has written to the log since, or the log or the journal fails.
    pub fn lead(&mut self, mut log: CommitLog, job_state: Value) -> Result<(), JournalError> {
        let has_begun = log.next() > 1;
        if has_begun || self.log_position()?.is_some() {
            log.append(&LogRecord::Lead { job_state: job_state.clone() }.to_bytes())?;
        }
        let position = log.next().saturating_sub(1);
        self.log = Some(log);
        self.job_state = job_state;
        self.write(&JournalChanges::default(), None, LogPosition::At(position))
    }

    /// Ends a log whose job is started over by the run `by`.
    ///
    /// # Errors
    /// If the log cannot be appended to.
    pub fn supersede(log: &mut CommitLog, by: &str) -> Result<(), LogError> {
        log.append(&LogRecord::Superseded { by: by.to_owned() }.to_bytes()).map(drop)
    }

    /// The payload of record 0.
    pub fn first_record(state: LogState) -> Vec<u8> {
        LogRecord::Begin(Box::new(state)).to_bytes()
    }

    /// Whether another process leads the job, so that this one may change nothing that both can reach.
    pub fn is_fenced(&self) -> bool {
        self.log.as_ref().is_some_and(CommitLog::is_fenced)
    }

    /// Whether the journal includes records of another process since the last call of
    /// [`forget_origin`](Self::forget_origin). The files that these records name may be on another machine.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn is_from_log(&self) -> Result<bool, JournalError> {
        Ok(self.noted(FROM_LOG_NOTE)?.is_some())
    }

    /// Call this when the files that the journal names have been checked.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn forget_origin(&mut self) -> Result<(), JournalError> {
        let notes = vec![(FROM_LOG_NOTE.to_owned(), None)];
        self.commit(&JournalChanges { notes, ..JournalChanges::default() })
    }

    /// The number of the last record that the journal includes. `None` if it was never connected to a log.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn log_position(&self) -> Result<Option<u64>, JournalError> {
        Ok(self.value(POSITION_KEY)?.and_then(|number| number.parse().ok()))
    }

    /// Writes a snapshot, if one is due. A failure is only logged: the log does not need snapshots.
    pub(super) fn write_snapshot_if_due(&mut self) {
        if !self.log.as_ref().is_some_and(CommitLog::snapshot_is_due) {
            return;
        }
        match self.log_state(self.job_state.clone()) {
            Ok(state) => {
                let bytes = serde_json::to_vec(&state).unwrap_or_default();
                let written = self.log.as_mut().map(|log| log.write_snapshot(&bytes));
                if let Some(Err(error)) = written {
                    warn!("no snapshot of the commit log was written: {error}");
                }
            }
            Err(error) => warn!("no snapshot of the commit log was written: {error}"),
        }
    }

    /// Makes the journal again from the state after record `number`.
    fn restore(path: &Path, number: u64, state: &LogState) -> Result<Self, JournalError> {
        remove(path).map_err(|_| JournalError::ReadOnly(path.to_owned()))?;
        let mut journal = Self::create(path, &state.job)?;
        let mut content = state.content.clone();
        content.notes.push((FROM_LOG_NOTE.to_owned(), Some(String::new())));
        journal.write(&content, state.status, LogPosition::At(number))?;
        Ok(journal)
    }
}

/// Applies the records of a log to a journal.
struct LogReader {
    path: PathBuf,
    /// The journal, and the number of the last record that it includes.
    journal: Option<(Journal, u64)>,
}

impl LogReader {
    fn read(&mut self, number: u64, record: LogRecord) -> Result<(), JournalError> {
        let (mut changes, status) = match record {
            LogRecord::Begin(state) => return self.begin(number, &state),
            LogRecord::Lead { .. } | LogRecord::Superseded { .. } => {
                (JournalChanges::default(), None)
            }
            LogRecord::Changes(changes) => (changes, None),
            LogRecord::End { status, changes } => (changes, Some(status)),
        };
        let Some((journal, position)) = &mut self.journal else {
            let what = "no state comes before it".to_owned();
            return Err(JournalError::UnknownRecord { number, what });
        };
        if number <= *position {
            return Ok(());
        }
        changes.notes.push((FROM_LOG_NOTE.to_owned(), Some(String::new())));
        journal.write(&changes, status, LogPosition::At(number))?;
        *position = number;
        Ok(())
    }

    /// Makes the journal from this state, unless it includes more already.
    fn begin(&mut self, number: u64, state: &LogState) -> Result<(), JournalError> {
        if self.journal.as_ref().is_none_or(|(_, position)| *position < number) {
            // Closes the old journal first: only one can be open.
            self.journal = None;
            let journal = Journal::restore(&self.path, number, state)?;
            self.journal = Some((journal, number));
        }
        Ok(())
    }
}

fn parse<'a, T: Deserialize<'a>>(number: u64, payload: &'a [u8]) -> Result<T, JournalError> {
    let parsed = serde_json::from_slice(payload);
    parsed.map_err(|error| JournalError::UnknownRecord { number, what: error.to_string() })
}

/// Removes a journal.
fn remove(path: &Path) -> std::io::Result<()> {
    keep_private(path);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = OsString::from(path);
        file.push(suffix);
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
