//! Finds jobs in a job store that agents have led, and that no process leads now.

use super::folder_lock::is_locked;
use super::job_state::{JobFile, JobState};
use super::presence::is_led;
use super::published::is_unpublished;
use super::stored_place::{StorePlace, StoredPlace};
use crate::journal::{JournalError, LogSummary};
use crate::model::{Address, JobStatus};
use sandmill_commit_log::LogStore;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A job in a job store that an agent has led, that has not ended, and that no process leads now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanedJob {
    /// The job's name.
    pub name: String,
    /// The job's folder or address in the store.
    pub folder: PathBuf,
    /// The id of the run.
    pub run: String,
    /// Where the job comes from.
    pub job_file: JobFile,
    /// The job store.
    pub store: String,
    /// The job's tenant.
    pub tenant: String,
}

/// The runs that are over for good: the folders of their jobs, and their ids. Their logs are not read again.
pub type OldRuns = BTreeSet<(PathBuf, String)>;

/// A job store in which to look for orphaned jobs.
#[derive(Clone, Debug)]
pub enum SearchedStore {
    /// A folder.
    Folder(PathBuf),
    /// An address, and the objects below it.
    Address(Address, Arc<dyn LogStore>),
}

impl fmt::Display for SearchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Address(address, _) => address.fmt(f),
        }
    }
}

/// Looks for orphaned jobs in a job store. Ignores logs that cannot be read: the commands that list jobs report them. May
/// take some seconds for each job at an address whose leader may be dead.
///
/// # Errors
/// If the store cannot be read.
pub fn orphaned_jobs(store: &SearchedStore, old: &mut OldRuns) -> io::Result<Vec<OrphanedJob>> {
    let shown = store.to_string();
    let store = match store {
        SearchedStore::Folder(folder) => StorePlace::in_folder(folder).map_err(io::Error::other)?,
        SearchedStore::Address(address, objects) => {
            StorePlace::at_address(address, objects.clone())
        }
    };
    let names = store.names()?.into_iter();
    let read = |name: String| read(store.job(&name), &shown, old).unwrap_or_default();
    Ok(names.filter_map(read).collect())
}

fn read(
    place: StoredPlace,
    store: &str,
    old: &mut OldRuns,
) -> Result<Option<OrphanedJob>, JournalError> {
    let StoredPlace { name, logs, shown, .. } = place;
    let Some(run) = logs.latest(&logs.runs_begun()?) else { return Ok(None) };
    let key = (PathBuf::from(shown), run.id().to_owned());
    if old.contains(&key) {
        return Ok(None);
    }
    let summary = LogSummary::read(&run)?;
    let state = JobState::parse(summary.job_state.clone()).ok();
    let is_completed = summary.status == Some(JobStatus::Completed);
    let goes_to_store = state.as_ref().is_some_and(|state| state.results.is_some());
    let objects = logs.store();
    let is_published = || {
        let state = state.as_ref().map(|state| (summary.status, state));
        state.is_none_or(|state| !is_unpublished(objects, run.id(), state).unwrap_or(true))
    };
    if summary.is_superseded || (is_completed && is_published()) {
        old.insert(key);
        return Ok(None);
    }
    let state = state.filter(|_| is_completed || summary.status.is_none());
    let Some(JobState { started_by, job_file: Some(job_file), output, .. }) = state else {
        return Ok(None);
    };
    let Some(started_by) = started_by.filter(|by| by.by_agent) else { return Ok(None) };
    // If the results go to a store, no lock shows that a process leads the job.
    let is_led = match goes_to_store {
        true => is_led(&**objects, run.id(), &mut || ()).unwrap_or(true),
        false => is_locked(&output),
    };
    let (folder, run) = key;
    let store = store.to_owned();
    let job = OrphanedJob { name, folder, run, job_file, store, tenant: started_by.tenant };
    Ok((!is_led).then_some(job))
}
