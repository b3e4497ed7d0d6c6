//! The jobs whose commit logs are in a job store, for `jobs --store` and `clean --store`.

use super::cancel_requests::CancelRequest;
use super::claim_error::ClaimError;
use super::folder_lock::FolderLock;
use super::job_state::JobState;
use super::presence::is_led;
use super::published::is_unpublished;
use super::shared_logs::{LastWord, read_last_word};
use super::stored_place::{StorePlace, StoredPlace};
use super::stored_view::{is_live, pending_cancel};
use crate::files::{remove_tree, tree_bytes};
use crate::journal::{Journal, JournalError, LogSummary};
use crate::model::JobStatus;
use jiff::Timestamp;
use sandmill_commit_log::{JobLogs, Writer, remove_objects};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The prefix of a folder that is being removed.
const REMOVED_PREFIX: &str = ".removed-";

/// A job whose commit log is in a job store.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// The job's name.
    pub name: String,
    place: StoredPlace,
    /// How the job ended. `None` if it has not ended, or was started over and did not begin.
    pub status: Option<JobStatus>,
    /// Whether the job is completed, and its results are not yet all at the address to which they go.
    pub is_unpublished: bool,
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
    /// The job's output folder, or the address to which its results go. `None` if the log does not say it.
    pub output: Option<PathBuf>,
    /// As [`JobState::shared_output`].
    shared_output: Option<PathBuf>,
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
        is_live(self.shared_output.as_deref(), self.last_word.as_ref())
    }

    /// The job's folder or address in the store, for messages.
    pub fn place(&self) -> &str {
        &self.place.shown
    }

    /// The size of everything that the store has of the job, in bytes. `None` if the store is at an address.
    pub fn bytes(&self) -> Option<u64> {
        tree_bytes(self.place.folder.as_ref()?).ok()
    }

    /// Removes the job's logs. A leader of the job that is still alive can then no longer commit anything.
    /// Returns false, and removes nothing, if a process works in the job's output folder, if the log has changed
    /// since it was read, or if the job has not completed and its output folder is not on this machine: then it
    /// is unknown whether the job is running. May take some seconds.
    ///
    /// # Errors
    /// If the store fails.
    pub fn remove(&self) -> Result<bool, ClaimError> {
        let _lock = match &self.shared_output {
            Some(output) if output.is_dir() => {
                let output = output.canonicalize().unwrap_or_else(|_| output.clone());
                let lock = FolderLock::try_lock(&output);
                let lock = lock.map_err(|e| ClaimError::io("lock the folder", &output, e))?;
                let Some(lock) = lock else { return Ok(false) };
                Some(lock)
            }
            Some(_) if self.status != Some(JobStatus::Completed) => return Ok(false),
            Some(_) => None,
            // No lock protects the job.
            None if self.is_led()? => return Ok(false),
            None => None,
        };
        let logs = &self.place.logs;
        if read(self.place.clone())?.is_none_or(|now| now.run != self.run) {
            return Ok(false);
        }
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        logs.supersede(&runs, &Journal::superseded(None)).map_err(JournalError::from)?;
        match &self.place.folder {
            Some(folder) => self.remove_folder(folder),
            None => remove_stored(logs, &self.run.0)
                .map_err(|source| JournalError::no_store(self.place.shown.clone(), source).into()),
        }
        .map(|()| true)
    }

    /// As [`is_running`](Self::is_running), but trusts no clock.
    fn is_led(&self) -> Result<bool, JournalError> {
        let is_led = is_led(&**self.place.logs.store(), &self.run.0, &mut || ());
        is_led.map_err(|source| JournalError::no_store(self.place.shown.clone(), source))
    }

    /// First the folder gets another name, so that it vanishes as a whole: while some records are missing, a leader
    /// that was replaced could create them again.
    fn remove_folder(&self, folder: &Path) -> Result<(), ClaimError> {
        let away = folder.with_file_name(format!("{REMOVED_PREFIX}{}", self.name));
        let removed = remove_tree(&away)
            .and_then(|()| fs::rename(folder, &away))
            .and_then(|()| remove_tree(&away));
        removed.map_err(|e| ClaimError::io("remove", folder, e))
    }
}

/// Removes the objects of a job whose latest run has ended its log. The last record of this log stays: it keeps a
/// leader that was replaced from committing anything. If this is interrupted after the list of runs is removed, some
/// objects stay that nothing refers to.
fn remove_stored(logs: &JobLogs, run: &str) -> io::Result<()> {
    let store = &**logs.store();
    let log = format!("{run}/log");
    let mut records = store.list(&log)?;
    records.sort();
    records.pop();
    let mut rest = folders_below(logs, "")?;
    // These come last, in this order.
    rest.retain(|folder| *folder != log && folder != "runs/log");
    for folder in rest {
        remove_objects(store, &folder, &store.list(&folder)?)?;
    }
    remove_objects(store, "runs/log", &store.list("runs/log")?)?;
    remove_objects(store, &log, &records)
}

/// All folders below one, with their names in the store.
fn folders_below(logs: &JobLogs, folder: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let inside = logs.store().folders(&folder)?.into_iter();
        let inside: Vec<String> = inside.map(|name| format!("{start}{name}")).collect();
        left.extend(inside.iter().cloned());
        found.extend(inside);
    }
    Ok(found)
}

/// The jobs in a job store, sorted by name. Also returns an error for each job whose log cannot be read.
///
/// # Errors
/// If the store cannot be read.
pub fn stored_jobs(store: &StorePlace) -> io::Result<(Vec<StoredJob>, Vec<String>)> {
    let mut jobs = Vec::new();
    let mut troubles = Vec::new();
    for name in store.names()? {
        let place = store.job(&name);
        let shown = place.shown.clone();
        match read(place) {
            Ok(job) => jobs.extend(job),
            Err(error) => troubles.push(format!("{shown}: {error}")),
        }
    }
    Ok((jobs, troubles))
}

/// `None` if the job has no log.
fn read(place: StoredPlace) -> Result<Option<StoredJob>, JournalError> {
    let logs = &place.logs;
    let Some(run) = logs.latest(&logs.runs_begun()?) else { return Ok(None) };
    let summary = LogSummary::read(&run)?;
    let state = JobState::parse(summary.job_state.clone()).ok();
    let last_word = read_last_word(logs.store(), run.id())?;
    let cancel = state.as_ref().map(|state| pending_cancel(logs, run.id(), &summary, state));
    let cancel = cancel.transpose()?.flatten();
    let unpublished = state.as_ref().filter(|_| !summary.is_superseded);
    let unpublished =
        unpublished.map(|state| is_unpublished(logs.store(), run.id(), (summary.status, state)));
    let unpublished =
        unpublished.transpose().map_err(|e| JournalError::no_store(place.shown.clone(), e))?;
    let LogSummary { status, is_superseded, writer, records, ended, .. } = summary;
    let last_record = place.folder.as_ref().and_then(|folder| last_change(folder, run.id()));
    // Objects at an address do not say when they were written.
    let last_record = last_record
        .or_else(|| Some(last_word.as_ref()?.at))
        .or_else(|| Some(writer.as_ref()?.since))
        .unwrap_or_else(Timestamp::now);
    let succeeded = ended.values().filter(|succeeded| **succeeded).count() as u64;
    let tenant = state.as_ref().and_then(|state| Some(state.started_by.as_ref()?.tenant.clone()));
    let shared_output = state.as_ref().and_then(|state| state.shared_output());
    Ok(Some(StoredJob {
        name: place.name.clone(),
        status: status.filter(|_| !is_superseded),
        is_unpublished: unpublished.unwrap_or_default(),
        last_record,
        run: (run.id().to_owned(), records),
        writer,
        mini_batches: (succeeded, ended.len() as u64 - succeeded),
        tenant: tenant.unwrap_or_default(),
        shared_output: shared_output.map(Path::to_owned),
        output: state.map(|state| state.output_shown().to_owned()),
        last_word,
        cancel: cancel.filter(|_| !is_superseded),
        place,
    }))
}

/// When a record was last written to the log of a run.
fn last_change(folder: &Path, run: &str) -> Option<Timestamp> {
    let entries = fs::read_dir(folder.join(run).join("log")).ok()?.flatten();
    let times = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    Timestamp::try_from(times.max()?).ok()
}
