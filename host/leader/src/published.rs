//! Removes the copies of a job's results from its store, when the results are where the job puts them.

use super::ClaimError;
use super::commit::SavedResults;
use super::presence::Presence;
use super::stored_rows::remove_stored_rows;
use super::stored_spill::remove_stored_spill;
use crate::journal::{Journal, JournalError};
use crate::model::JobDir;
use sandmill_commit_log::{JobLogs, LogStore, RunList, RunLog};
use std::path::PathBuf;
use std::sync::Arc;

/// The completed run of a job whose results are about to go to an address in a store.
#[derive(Debug)]
pub struct RunToPublish {
    objects: Arc<dyn LogStore>,
    job_dir: PathBuf,
    log: RunLog,
    /// The number of the record that another leader of the run would write.
    next: u64,
    /// Keeps other machines from publishing the same results.
    _presence: Presence,
}

impl RunToPublish {
    /// The run that a job directory holds. `objects`: the job's objects in its store. `None` if the directory does
    /// not hold a run with a commit log.
    ///
    /// # Errors
    /// If another process has started the job over, or leads it, or if the store fails.
    pub fn find(objects: Arc<dyn LogStore>, job_dir: &JobDir) -> Result<Option<Self>, ClaimError> {
        let Some(journal) = Journal::open_if_usable(&job_dir.journal())? else { return Ok(None) };
        let Some(position) = journal.log_position()? else { return Ok(None) };
        let run = journal.job()?.id;
        let next = position.number + 1;
        let logs = JobLogs::new(objects.clone());
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        let job_dir = job_dir.root().to_owned();
        let Some(log) = logs.latest(&runs).filter(|log| log.id() == run) else {
            return Err(ClaimError::Superseded(job_dir));
        };
        let _presence = Presence::show(objects.clone(), &run);
        let found = Self { objects, job_dir, log, next, _presence };
        found.check_in(&runs)?;
        Ok(Some(found))
    }

    /// Checks that no other process has started the job over, or continued it.
    ///
    /// # Errors
    /// If one has, or if the store fails.
    pub fn check(&self) -> Result<(), ClaimError> {
        let runs = JobLogs::new(self.objects.clone()).runs_begun().map_err(JournalError::from)?;
        self.check_in(&runs)
    }

    /// As [`check`](Self::check), with the list of runs that was just read.
    fn check_in(&self, runs: &RunList) -> Result<(), ClaimError> {
        let is_last = runs.is_last(self.log.id());
        if is_last && !self.log.has(self.next).map_err(JournalError::from)? {
            return Ok(());
        }
        Err(ClaimError::Superseded(self.job_dir.clone()))
    }

    /// Records that the results are published, and removes their copies. Does nothing if another leader, which may
    /// read the copies, has continued the job meanwhile.
    ///
    /// # Errors
    /// If the store fails.
    pub fn publish(&self) -> Result<(), ClaimError> {
        if self.log.has(self.next).map_err(JournalError::from)? {
            return Ok(());
        }
        let saved = SavedResults::new(self.objects.clone(), self.log.id());
        let removed = saved
            .remove()
            .and_then(|()| remove_stored_rows(&*self.objects, self.log.id()))
            .and_then(|()| remove_stored_spill(&*self.objects, self.log.id()));
        Ok(removed.map_err(|source| JournalError::no_store(saved.folder(), source))?)
    }
}
