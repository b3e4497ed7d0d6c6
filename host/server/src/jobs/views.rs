//! The views of the jobs that were looked at lately.

use super::view::{JobView, ViewError};
use crate::folders::StateFolder;
use crate::names::{JobId, TenantName};
use sandmill_model::JobDir;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The most views that are kept. A view has the failures of its job, and four bytes for each attempt.
const MOST_VIEWS: usize = 200;

/// The views, by job.
#[derive(Debug)]
pub(crate) struct JobViews {
    folders: StateFolder,
    views: Mutex<HashMap<JobId, KeptView>>,
}

#[derive(Debug)]
struct KeptView {
    view: Arc<Mutex<Option<JobView>>>,
    used: Instant,
}

impl JobViews {
    pub(crate) fn new(folders: StateFolder) -> Self {
        Self { folders, views: Mutex::default() }
    }

    /// The place of a job's view.
    fn place(&self, id: &JobId) -> Arc<Mutex<Option<JobView>>> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if views.len() >= MOST_VIEWS && !views.contains_key(id) {
            let oldest = views.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                views.remove(&oldest);
                // The index is made again when the job is looked at again.
                let _ = std::fs::remove_file(self.folders.index(&oldest));
            }
        }
        let new = || KeptView { view: Arc::default(), used: Instant::now() };
        let kept = views.entry(id.clone()).or_insert_with(new);
        kept.used = Instant::now();
        kept.view.clone()
    }

    /// Calls `look` with a job's view, which has read all events so far. Other callers that look at the same job wait.
    ///
    /// # Errors
    /// If the events cannot be read, and what `look` returns.
    pub(crate) fn look<T>(
        &self,
        (tenant, id): (&TenantName, &JobId),
        look: impl FnOnce(&JobView) -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        let place = self.place(id);
        let mut view = place.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = match view.take() {
            Some(found) => found,
            None => {
                JobView::open(&JobDir::new(self.folders.job(tenant, id)), &self.folders.index(id))?
            }
        };
        match found.refresh() {
            Ok(()) => {}
            Err(ViewError::Partial) => {
                *view = Some(found);
                return Err(ViewError::Partial);
            }
            // A view that fails is made again.
            Err(error) => return Err(error),
        }
        let seen = look(&found);
        *view = Some(found);
        seen
    }
}
