//! Finds jobs in a job store that agents have led, and that no process leads now.

use super::commit::SavedResults;
use super::folder_lock::is_locked;
use super::job_state::{JobFile, JobState};
use super::presence::is_led;
use super::stored_place::{StorePlace, StoredPlace};
use crate::journal::{JournalError, LogSummary};
use crate::model::JobStatus;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// A job in a job store that an agent has led, that has not ended, and that no process leads now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanedJob {
    /// The job's name.
    pub name: String,
    /// The job's folder in the store.
    pub folder: PathBuf,
    /// The id of the run.
    pub run: String,
    /// Where the job comes from.
    pub job_file: JobFile,
}

/// The runs that are over for good: the folders of their jobs, and their ids. Their logs are not read again.
pub type OldRuns = BTreeSet<(PathBuf, String)>;

/// Looks for orphaned jobs in a job store. Ignores logs that cannot be read: the commands that list jobs report them.
///
/// # Errors
/// If the store's folder cannot be read.
pub fn orphaned_jobs(store: &Path, old: &mut OldRuns) -> io::Result<Vec<OrphanedJob>> {
    let store = StorePlace::in_folder(store).map_err(io::Error::other)?;
    let names = store.names()?.into_iter();
    let read = |name: String| read(store.job(&name), old).unwrap_or_default();
    Ok(names.filter_map(read).collect())
}

fn read(place: StoredPlace, old: &mut OldRuns) -> Result<Option<OrphanedJob>, JournalError> {
    let StoredPlace { name, logs, folder: Some(folder), .. } = place else { return Ok(None) };
    let Some(run) = logs.latest(&logs.runs_begun()?) else { return Ok(None) };
    let key = (folder, run.id().to_owned());
    if old.contains(&key) {
        return Ok(None);
    }
    let summary = LogSummary::read(&run)?;
    let state = JobState::parse(summary.job_state).ok();
    let is_completed = summary.status == Some(JobStatus::Completed);
    let goes_to_store = state.as_ref().is_some_and(|state| state.results.is_some());
    let objects = logs.store();
    let is_published = || {
        let saved = SavedResults::new(objects.clone(), run.id());
        !goes_to_store || saved.are_removed().unwrap_or_default()
    };
    if summary.is_superseded || (is_completed && is_published()) {
        old.insert(key);
        return Ok(None);
    }
    let state = state.filter(|_| is_completed || summary.status.is_none());
    let Some(JobState { started_by, job_file: Some(job_file), output, .. }) = state else {
        return Ok(None);
    };
    // If the results go to a store, no lock shows that a process leads the job.
    let is_led = match goes_to_store {
        true => is_led(&**objects, run.id(), &mut || ()).unwrap_or(true),
        false => is_locked(&output),
    };
    let is_orphaned = started_by.is_some_and(|by| by.by_agent) && !is_led;
    let (folder, run) = key;
    Ok(is_orphaned.then_some(OrphanedJob { name, folder, run, job_file }))
}
