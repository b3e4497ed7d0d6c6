//! The journal of a job that has a store. The commit log in the store decides what counts, and the journal is
//! this machine's view of it: each change is a record of the log before it is in the journal. So the journal
//! can be made again from the log, also on another machine.

use super::log_reader::{LogReader, parse};
use super::log_record::{FROM_LOG_NOTE, LogRecord, LogState, POSITION_KEY};
use super::store::{LogWrite, journal_files, keep_private};
use super::{EntryOrder, Journal, JournalChanges, JournalEntry, JournalError, MiniBatchEnd};
use crate::fail_point;
use crate::model::{JobStatus, MiniBatchId};
use sandmill_commit_log::{CommitLog, LogError, LogPosition, Replay, RunLog, Writer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tracing::warn;

/// What a commit log says about its job, besides the journal's content. If it is stored and read again, it lacks
/// `ended`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LogSummary {
    /// As in [`LogState::job_state`].
    pub job_state: Value,
    /// As in [`LogState::directory`].
    pub directory: String,
    /// The process that wrote the last record. `None` if a snapshot includes all records.
    pub writer: Option<Writer>,
    /// How the job ended. `None` if it has not ended, or was resumed since.
    pub status: Option<JobStatus>,
    /// The number of the last record that says that the job ended, or of the snapshot that includes it. `None` if the
    /// job has not ended, or was resumed since.
    pub ended_at: Option<u64>,
    /// The number of records.
    pub records: u64,
    /// The mini-batches that have ended. The value says whether the mini-batch succeeded.
    #[serde(skip)]
    pub ended: HashMap<MiniBatchId, bool>,
    /// Whether the job has been started over, so that this run of it no longer counts.
    pub is_superseded: bool,
}

impl LogSummary {
    /// Reads a log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn read(run: &RunLog) -> Result<Self, JournalError> {
        let mut summary = Self::default();
        summary.read_all(run)?;
        Ok(summary)
    }

    /// Reads a log up to the first damaged record.
    ///
    /// # Errors
    /// If the store fails.
    pub fn read_intact(run: &RunLog) -> Result<Self, JournalError> {
        let mut summary = Self::default();
        match summary.read_all(run) {
            Err(error @ JournalError::Log { source: LogError::Unavailable { .. } }) => Err(error),
            _ => Ok(summary),
        }
    }

    /// Reads the records that were added to the log since the last call. The first call reads the whole log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn read_on(&mut self, run: &RunLog) -> Result<(), JournalError> {
        if self.records == 0 {
            return self.read_all(run);
        }
        let read = self.records;
        self.records = run.read_on::<JournalError>(read, &mut |replay| self.read_one(replay))?;
        Ok(())
    }

    /// The output folder of the job. `None` if it is unknown.
    pub fn output(&self) -> Option<PathBuf> {
        self.job_state.get("output")?.as_str().map(PathBuf::from)
    }

    /// Requests to cancel the job count if the log had at least this many records when they were made. The end of the
    /// job consumes earlier ones. `noted`: what the last leader knew.
    pub fn cancels_from(&self, noted: u64) -> u64 {
        self.ended_at.map_or(noted, |ended| ended + 1)
    }

    fn read_all(&mut self, run: &RunLog) -> Result<(), JournalError> {
        let log = run.replay::<JournalError>(&mut |replay| self.read_one(replay))?;
        self.records = log.next();
        Ok(())
    }

    fn read_one(&mut self, replay: Replay<'_>) -> Result<(), JournalError> {
        match replay {
            Replay::Snapshot { number, payload } => {
                self.begin(number, parse(number, payload)?);
            }
            Replay::Record { number, record } => {
                self.writer = Some(record.writer.clone());
                self.add(number, parse(number, &record.payload)?);
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: u64, state: LogState) {
        let LogState { job_state, directory, status, content, .. } = state;
        self.job_state = job_state;
        self.directory = directory;
        self.ended.clear();
        self.change(&content);
        self.status = status;
        self.ended_at = status.map(|_| number);
    }

    fn change(&mut self, changes: &JournalChanges) {
        for id in &changes.removed {
            self.ended.remove(id);
        }
        let has_succeeded =
            |entry: &JournalEntry| matches!(entry.end, MiniBatchEnd::Succeeded { .. });
        self.ended.extend(changes.entries.iter().map(|entry| (entry.id, has_succeeded(entry))));
        if changes.reopened {
            (self.status, self.ended_at) = (None, None);
        }
    }

    fn add(&mut self, number: u64, record: LogRecord) {
        match record {
            LogRecord::Begin(state) => self.begin(number, *state),
            LogRecord::Lead { job_state, directory } => {
                self.job_state = job_state;
                self.directory = directory;
            }
            LogRecord::Changes(changes) => self.change(&changes),
            LogRecord::End { status, changes } => {
                self.change(&changes);
                (self.status, self.ended_at) = (Some(status), Some(number));
            }
            LogRecord::Superseded { .. } => self.is_superseded = true,
        }
    }
}

impl Journal {
    /// Makes the journal at `path` include everything in the log. The journal may be missing, unusable, or
    /// older than the log. Returns the log, ready for the next record.
    ///
    /// # Errors
    /// If the log cannot be read, or is not the one that the journal comes from, or if the journal cannot be
    /// written.
    pub fn catch_up(path: &Path, run: &RunLog) -> Result<CommitLog, JournalError> {
        let mut reader = LogReader::new(path, directory_id(path));
        if let Some(journal) = Self::open_if_usable(path)? {
            let position = journal.log_position()?;
            reader.first = position.as_ref().map(|position| position.number);
            reader.journal = position.map(|position| (journal, position));
        }
        let log = run.replay::<JournalError>(&mut |replay| reader.read(replay))?;
        match reader.journal {
            Some((_, position)) if position.number >= log.next() => {
                let last = log.next().saturating_sub(1);
                let what = format!(
                    "ends with record {last}, and the job wrote record {}",
                    position.number
                );
                Err(JournalError::OtherLog { what })
            }
            _ => Ok(log),
        }
    }

    /// Opens the journal. `None` if there is no journal, or the file cannot be used: a commit log may restore
    /// it.
    ///
    /// # Errors
    /// If another process uses the journal, or another version of Sandmill wrote it.
    pub fn open_if_usable(path: &Path) -> Result<Option<Self>, JournalError> {
        match Self::open(path) {
            Err(error) if error.is_unusable() => Ok(None),
            opened => opened.map(Some),
        }
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
        content.receipts = self.receipts()?;
        let directory = directory_id(self.path());
        Ok(LogState { job_state, directory, job: self.job()?, content, status: self.finished()? })
    }

    /// Connects the journal to a log that has just begun with this journal's state.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn connect(
        &mut self,
        log: CommitLog,
        begun: LogPosition,
        job_state: Value,
    ) -> Result<(), JournalError> {
        self.log = Some(log);
        self.job_state = job_state;
        self.write(&JournalChanges::default(), None, LogWrite::Recorded(begun))
    }

    /// Connects the journal to a log that it has caught up with, and records there that this process leads
    /// the job from now on.
    ///
    /// # Errors
    /// If another process has written to the log since, or the log or the journal fails.
    pub fn lead(&mut self, mut log: CommitLog, job_state: Value) -> Result<(), JournalError> {
        let directory = directory_id(self.path());
        let record = LogRecord::Lead { job_state: job_state.clone(), directory };
        let position = log.append(&record.to_bytes())?;
        self.connect(log, position, job_state)
    }

    /// The payload of the record that ends a log. `by`: the run that starts the job over. `None` if no run
    /// does: the job did not begin, or its log is removed.
    pub fn superseded(by: Option<&str>) -> Vec<u8> {
        LogRecord::Superseded { by: by.map(str::to_owned) }.to_bytes()
    }

    /// The payload of record 0.
    pub fn first_record(state: LogState) -> Vec<u8> {
        LogRecord::Begin(Box::new(state)).to_bytes()
    }

    /// Whether the journal is connected to a commit log.
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Fails if another process leads the job. Call this before each change of the output: before rows are
    /// copied, and before files are published. This check may miss a leader that begins right after it. Only
    /// [`commit`](Self::commit) is sure to notice another leader.
    ///
    /// # Errors
    /// If another process leads the job, or the log cannot be read.
    pub fn check_lead(&mut self) -> Result<(), JournalError> {
        self.log.as_mut().map_or(Ok(()), |log| Ok(log.check()?))
    }

    /// As [`check_lead`](Self::check_lead), but ignores that the log cannot be read now. Call this at intervals, so
    /// that a leader that was replaced notices it even if it has nothing to commit.
    ///
    /// # Errors
    /// If another process leads the job.
    pub fn watch_lead(&mut self) -> Result<(), JournalError> {
        self.log.as_mut().map_or(Ok(()), |log| Ok(log.watch()?))
    }

    /// Whether another process possibly leads the job by now, or the last write to the log possibly succeeded
    /// although it was reported as failed. Then this process must leave everything unchanged that another one
    /// may use, such as the output.
    pub fn may_be_replaced(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_open())
    }

    /// Whether records from another job directory were added to the journal after the last call of
    /// [`forget_origin`](Self::forget_origin). The files of workers that these records name are not in this
    /// directory. Also true after a journal was made again from the log.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn is_from_log(&self) -> Result<bool, JournalError> {
        Ok(self.noted(FROM_LOG_NOTE)?.is_some())
    }

    /// Records that nothing in the journal refers to files of another job directory any longer. Also writes
    /// `notes`, in the same transaction.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn forget_origin(
        &mut self,
        mut notes: Vec<(String, Option<String>)>,
    ) -> Result<(), JournalError> {
        notes.push((FROM_LOG_NOTE.to_owned(), None));
        self.commit(&JournalChanges { notes, ..JournalChanges::default() })
    }

    /// The position of the last record that the journal includes. `None` if it was never connected to a log.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn log_position(&self) -> Result<Option<LogPosition>, JournalError> {
        let value = self.value(POSITION_KEY)?;
        Ok(value.and_then(|value| {
            let (number, nonce) = value.split_once(' ')?;
            Some(LogPosition { number: number.parse().ok()?, nonce: nonce.to_owned() })
        }))
    }

    /// Writes a snapshot, if one is due. A failure is only logged: the log does not need snapshots.
    pub(super) fn write_snapshot_if_due(&mut self) {
        let Some(mut log) = self.log.take_if(|log| log.snapshot_is_due()) else { return };
        let state = || {
            let state = self.log_state(self.job_state.clone())?;
            Ok::<_, JournalError>(serde_json::to_vec(&state).unwrap_or_default())
        };
        if let Err(error) = log.write_snapshot(state) {
            warn!("no snapshot of the commit log was written: {error}");
        }
        self.log = Some(log);
    }

    /// Makes the journal again from the state after a record.
    pub(super) fn restore(
        path: &Path,
        at: LogPosition,
        state: &LogState,
    ) -> Result<Self, JournalError> {
        remove_journal(path)?;
        fail_point::pass("journal-removed");
        let mut journal = Self::create(path, &state.job)?;
        let mut content = state.content.clone();
        content.notes.push((FROM_LOG_NOTE.to_owned(), Some(String::new())));
        journal.write(&content, state.status, LogWrite::Recorded(at))?;
        Ok(journal)
    }
}

/// A text that identifies the job directory of a journal, among the directories of all machines. If the
/// directory is moved, it keeps its text. A copy of the directory has another one.
pub fn directory_id(journal: &Path) -> String {
    let host = Writer::this_process().host;
    let found = journal.parent().and_then(|folder| folder.metadata().ok());
    // The inode's number may be used again after the directory was removed. The time of creation differs then.
    let created = found.as_ref().and_then(|found| found.created().ok());
    let created = created.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let inode = found.map_or(0, |found| found.ino());
    format!("{host}:{inode}:{}", created.as_nanos())
}

/// Removes a journal. Does nothing if there is none.
///
/// # Errors
/// If the journal cannot be removed.
pub fn remove_journal(path: &Path) -> Result<(), JournalError> {
    keep_private(path);
    for file in journal_files(path) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(JournalError::ReadOnly(path.to_owned()));
            }
            _ => {}
        }
    }
    Ok(())
}
