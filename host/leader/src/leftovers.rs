//! The working files of a job, which are useless when the job has completed: its rows and files are in the output then.

use super::job::PreparedJob;
use super::job_store::JobStore;
use super::stored_spill::remove_stored_spill;
use crate::files::remove_tree;
use sandmill_commit_log::LogStore;
use std::path::PathBuf;
use std::sync::Arc;

/// What a completed job leaves.
#[derive(Debug)]
pub(super) struct Leftovers {
    folders: Vec<PathBuf>,
    /// The job's objects in its store, and the id of the run. `None` if the job has no store, or if its objects are
    /// removed after the results are published.
    stored: Option<(Arc<dyn LogStore>, String)>,
}

impl Leftovers {
    /// The working files of this job.
    pub(super) fn of<N>(job: &PreparedJob<N>) -> Self {
        let dir = job.worker_dir();
        let mut folders = vec![dir.parts(), dir.work(), dir.models(), dir.links(), dir.spill()];
        if dir.spill() != job.job_dir.spill() {
            folders.push(job.job_dir.spill());
        }
        let store = job.store.as_ref().filter(|store| !store.publishes_later());
        let objects = |store: &JobStore| (store.logs().store().clone(), job.run.clone());
        Self { folders, stored: store.map(objects) }
    }

    /// Removes them. Returns notices for the user about those that cannot be removed.
    pub(super) fn remove(&self) -> Vec<String> {
        let mut notices = Vec::new();
        for folder in &self.folders {
            if let Err(error) = remove_tree(folder) {
                notices.push(format!("{} cannot be removed: {error}", folder.display()));
            }
        }
        if let Some((store, run)) = &self.stored
            && let Err(error) = remove_stored_spill(&**store, run)
        {
            notices.push(format!("copies of rows stay in the job store: {error}"));
        }
        notices
    }
}
