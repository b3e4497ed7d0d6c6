//! Removes the copies of a job's results from its store, when the results are where the job puts them.

use super::ClaimError;
use super::commit::SavedResults;
use super::job_store::LocalRun;
use crate::journal::JournalError;
use crate::model::JobDir;
use sandmill_commit_log::{JobLogs, LogError, LogStore};
use std::sync::Arc;

/// The completed run of a job whose results are about to go to an address in a store.
#[derive(Debug)]
pub struct RunToPublish {
    objects: Arc<dyn LogStore>,
    run: String,
}

impl RunToPublish {
    /// The run that a job directory holds. `objects`: the job's objects in its store. `None` if the directory holds
    /// no run.
    ///
    /// # Errors
    /// If another run of the job has begun since, whose results must not be replaced, or if the store fails.
    pub fn find(objects: Arc<dyn LogStore>, job_dir: &JobDir) -> Result<Option<Self>, ClaimError> {
        let Some(LocalRun { id: run, .. }) = LocalRun::read(job_dir)? else { return Ok(None) };
        let logs = JobLogs::new(objects.clone());
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        if !runs.is_last(&run) {
            return Err(ClaimError::Superseded(job_dir.root().to_owned()));
        }
        Ok(Some(Self { objects, run }))
    }

    /// Records that the results are published, and removes their copies.
    ///
    /// # Errors
    /// If the store fails.
    pub fn publish(&self) -> Result<(), ClaimError> {
        let saved = SavedResults::new(self.objects.clone(), &self.run);
        saved.remove().map_err(|source| {
            let name = saved.folder();
            JournalError::from(LogError::Unavailable { name, source }).into()
        })
    }
}
