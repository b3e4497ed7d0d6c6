//! A completed job whose results go to an address in a store: the job has ended only when they are all there. Then the
//! copies of the results in the job's store are removed.

use super::ClaimError;
use super::claim::{lock_root, resolve};
use super::commit::SavedResults;
use super::folder_lock::FolderLock;
use super::job_state::JobState;
use super::presence::Presence;
use super::shared_logs::Pulse;
use super::stored_rows::remove_stored_rows;
use super::stored_spill::remove_stored_spill;
use crate::journal::{Journal, JournalError, directory_id};
use crate::model::{JobDir, JobStatus};
use sandmill_commit_log::{JobLogs, LogStore, RunList, RunLog};
use std::io;
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
    /// Tells the commands of other machines that this process is alive. `None` if the results were published before.
    _pulse: Option<Pulse>,
}

/// A job directory whose completed job sends its results to an address in a store. While this value lives, no job can
/// begin in the directory.
#[derive(Debug)]
pub struct DirToPublish {
    state_file: PathBuf,
    /// `None` if the directory has no state of a job.
    state: Option<JobState>,
    _lock: FolderLock,
}

impl DirToPublish {
    /// Locks the directory.
    ///
    /// # Errors
    /// If a job is running in the directory, or if the directory cannot be read or written.
    pub fn lock(job_dir: &JobDir) -> Result<Self, ClaimError> {
        let lock = lock_root(job_dir, &resolve(job_dir.root())?)?;
        let state_file = job_dir.state_file();
        let mut state = JobState::read(job_dir)?;
        let pid = std::process::id();
        if let Some(state) = state.as_mut().filter(|state| state.is_unpublished && state.pid != pid)
        {
            state.pid = pid;
            state.write(&state_file)?;
        }
        Ok(Self { state_file, state, _lock: lock })
    }

    /// Records that the results are at their address.
    ///
    /// # Errors
    /// If the state cannot be written.
    pub fn published(self) -> Result<(), ClaimError> {
        let Some(mut state) = self.state.filter(|state| state.is_unpublished) else {
            return Ok(());
        };
        state.is_unpublished = false;
        state.write(&self.state_file)
    }
}

/// Whether the results of this run must still go to the address that its job names.
///
/// # Errors
/// If the store fails.
pub(super) fn is_unpublished(
    objects: &Arc<dyn LogStore>,
    run: &str,
    (status, state): (Option<JobStatus>, &JobState),
) -> io::Result<bool> {
    if status != Some(JobStatus::Completed) || state.results.is_none() {
        return Ok(false);
    }
    Ok(!SavedResults::new(objects.clone(), run).are_removed()?)
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
        let directory = directory_id(&job_dir.journal());
        let job_dir = job_dir.root().to_owned();
        let Some(log) = logs.latest(&runs) else {
            return Err(ClaimError::UnpublishedLogGone(job_dir));
        };
        if log.id() != run {
            return Err(ClaimError::Superseded(job_dir));
        }
        let _presence = Presence::show(objects.clone(), &run);
        let mut found = Self { objects, job_dir, log, next, _presence, _pulse: None };
        found.check_in(&runs)?;
        // If the store fails now, the upload fails, too, or commands show the job as interrupted meanwhile.
        if !found.saved().are_removed().unwrap_or(true) {
            found._pulse = Pulse::start(&found.objects, &run, directory);
        }
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

    fn saved(&self) -> SavedResults {
        SavedResults::new(self.objects.clone(), self.log.id())
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
        let saved = self.saved();
        let removed = saved
            .remove()
            .and_then(|()| remove_stored_rows(&*self.objects, self.log.id()))
            .and_then(|()| remove_stored_spill(&*self.objects, self.log.id()));
        Ok(removed.map_err(|source| JournalError::no_store(saved.folder(), source))?)
    }
}
