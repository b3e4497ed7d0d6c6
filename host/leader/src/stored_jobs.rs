//! The jobs whose commit logs are in a job store, for `jobs --store` and `clean --store`.

use super::cancel_requests::CancelRequest;
use super::claim_error::ClaimError;
use super::folder_lock::FolderLock;
use super::job_state::JobState;
use super::presence::is_led;
use super::shared_logs::{LastWord, read_last_word};
use super::stored_view::{is_live, pending_cancel};
use crate::files::remove_tree;
use crate::journal::{Journal, JournalError, LogSummary};
use crate::model::JobStatus;
use jiff::Timestamp;
use sandmill_commit_log::{FolderStore, JobLogs, Writer};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of a folder that is being removed.
const REMOVED_PREFIX: &str = ".removed-";

/// A job whose commit log is in a job store.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// The job's name.
    pub name: String,
    /// The job's folder in the store.
    pub folder: PathBuf,
    /// How the job ended. `None` if it has not ended, or was started over and did not begin.
    pub status: Option<JobStatus>,
    /// When the last record was written.
    pub last_record: Timestamp,
    /// The id of the latest run, and the number of records in its log.
    run: (String, u64),
    /// The process that wrote the last record. `None` if only a snapshot has it.
    writer: Option<Writer>,
    /// The mini-batches that succeeded, and those that failed.
    pub mini_batches: (u64, u64),
    /// The job's tenant. Empty if the job has none.
    pub tenant: String,
    /// The job's output folder. `None` if the log does not say it.
    pub output: Option<PathBuf>,
    /// The address in a store to which the results go. `None` if they stay in the output folder.
    pub results: Option<String>,
    /// What the latest leader said last. `None` if it is unknown.
    pub last_word: Option<LastWord>,
    /// The last request to cancel the job that still counts.
    pub cancel: Option<CancelRequest>,
}

impl StoredJob {
    /// When the job's leader last said or wrote something.
    pub fn last_sign(&self) -> Timestamp {
        self.last_word.as_ref().map_or(self.last_record, |word| word.at.max(self.last_record))
    }

    /// The latest leader. `None` if it is unknown.
    fn leader(&self) -> Option<&Writer> {
        self.last_word.as_ref().map(|word| &word.leader).or(self.writer.as_ref())
    }

    /// The machine of the latest leader. `None` if it is unknown.
    pub fn machine(&self) -> Option<&str> {
        Some(&self.leader()?.host)
    }

    /// The process ID of the latest leader on its machine. `None` if it is unknown.
    pub fn pid(&self) -> Option<u32> {
        Some(self.leader()?.pid)
    }

    /// Whether a process leads the job, or is about to.
    pub fn is_running(&self) -> bool {
        // No lock protects a job whose results go to a store.
        let output = self.output.as_deref().filter(|_| self.results.is_none());
        is_live(output, self.last_word.as_ref())
    }

    /// As [`is_running`](Self::is_running), but trusts no clock. May take some seconds.
    fn is_led(&self) -> io::Result<bool> {
        is_led(&FolderStore::new(self.folder.clone()), &self.run.0, &mut || ())
    }

    /// Removes the job's logs. A leader of the job that is still alive can then no longer commit anything.
    /// Returns false, and removes nothing, if a process works in the job's output folder, if the log has changed
    /// since it was read, or if the job has not completed and its output folder is not on this machine: then it
    /// is unknown whether the job is running.
    ///
    /// # Errors
    /// If the store fails.
    pub fn remove(&self) -> Result<bool, ClaimError> {
        let is_completed = self.status == Some(JobStatus::Completed);
        if self.results.is_some()
            && self.is_led().map_err(|e| ClaimError::io("read", &self.folder, e))?
        {
            return Ok(false);
        }
        let _lock = match &self.output {
            Some(_) if self.results.is_some() => None,
            Some(output) if output.is_dir() => {
                let output = output.canonicalize().unwrap_or_else(|_| output.clone());
                let lock = FolderLock::try_lock(&output);
                let lock = lock.map_err(|e| ClaimError::io("lock the folder", &output, e))?;
                let Some(lock) = lock else { return Ok(false) };
                Some(lock)
            }
            Some(_) if !is_completed => return Ok(false),
            _ => None,
        };
        if read(&self.name, &self.folder)?.is_none_or(|now| now.run != self.run) {
            return Ok(false);
        }
        let logs = logs_in(&self.folder);
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        logs.supersede(&runs, &Journal::superseded(None)).map_err(JournalError::from)?;
        // First the folder gets another name, so that it vanishes as a whole: while some records are missing, a
        // leader that was replaced could create them again.
        let away = self.folder.with_file_name(format!("{REMOVED_PREFIX}{}", self.name));
        let removed = remove_tree(&away)
            .and_then(|()| fs::rename(&self.folder, &away))
            .and_then(|()| remove_tree(&away));
        removed.map_err(|e| ClaimError::io("remove", &self.folder, e))?;
        Ok(true)
    }
}

/// The jobs in a job store, sorted by name. Also returns an error for each folder whose log cannot be read.
///
/// # Errors
/// If the store's folder cannot be read.
pub fn stored_jobs(store: &Path) -> io::Result<(Vec<StoredJob>, Vec<String>)> {
    let store = store.canonicalize()?;
    let (mut jobs, mut troubles) = (Vec::new(), Vec::new());
    for (name, folder) in job_folders(&store)? {
        match read(&name, &folder) {
            Ok(job) => jobs.extend(job),
            Err(error) => troubles.push(format!("{}: {error}", folder.display())),
        }
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    troubles.sort();
    Ok((jobs, troubles))
}

/// The folders of the jobs in a store, with their names.
pub(super) fn job_folders(store: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        let folder = entry.path();
        // The store's folder may hold other things, too.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_job = !name.starts_with('.') && folder.join("runs").is_dir();
        if entry.file_type()?.is_dir() && is_job {
            folders.push((name, folder));
        }
    }
    Ok(folders)
}

/// `None` if the folder has no log.
fn read(name: &str, folder: &Path) -> Result<Option<StoredJob>, JournalError> {
    let logs = logs_in(folder);
    let Some(run) = logs.latest(&logs.runs_begun()?) else { return Ok(None) };
    let summary = LogSummary::read(&run)?;
    let state = JobState::parse(summary.job_state.clone()).ok();
    let last_word = read_last_word(logs.store(), run.id())?;
    let cancel = state.as_ref().map(|state| pending_cancel(&logs, run.id(), &summary, state));
    let cancel = cancel.transpose()?.flatten();
    let LogSummary { status, is_superseded, writer, records, ended, .. } = summary;
    let log = folder.join(run.id()).join("log");
    let times = fs::read_dir(log).into_iter().flatten().flatten();
    let times = times.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let last_record = times.max().and_then(|time| Timestamp::try_from(time).ok());
    let succeeded = ended.values().filter(|succeeded| **succeeded).count() as u64;
    let tenant = state.as_ref().and_then(|state| Some(state.started_by.as_ref()?.tenant.clone()));
    Ok(Some(StoredJob {
        name: name.to_owned(),
        folder: folder.to_owned(),
        status: status.filter(|_| !is_superseded),
        last_record: last_record.unwrap_or_else(Timestamp::now),
        run: (run.id().to_owned(), records),
        writer,
        mini_batches: (succeeded, ended.len() as u64 - succeeded),
        tenant: tenant.unwrap_or_default(),
        results: state.as_ref().and_then(|state| state.results.clone()),
        output: state.map(|state| state.output),
        last_word,
        cancel: cancel.filter(|_| !is_superseded),
    }))
}

pub(super) fn logs_in(folder: &Path) -> JobLogs {
    JobLogs::new(Arc::new(FolderStore::new(folder.to_owned())))
}
