//! The job of `sandmill portal`: one job directory.

use crate::api::no_view;
use crate::jobs::{JobView, ViewError};
use crate::problem::Problem;
use sandmill_model::JobDir;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// The most streams of events at the same time.
const MOST_STREAMS: usize = 50;

/// A job directory that is shown without a server.
#[derive(Clone, Debug)]
pub(super) struct OneJob {
    pub(super) dir: JobDir,
    pub(super) streams: Arc<Semaphore>,
    view: Arc<Mutex<Option<JobView>>>,
}

impl OneJob {
    /// The job in this directory.
    pub(super) fn new(dir: JobDir) -> Self {
        Self { dir, streams: Arc::new(Semaphore::new(MOST_STREAMS)), view: Arc::default() }
    }

    /// Calls `look` with the job's view, which has read all events so far.
    ///
    /// # Errors
    /// If the events cannot be read, or not yet, and what `look` returns.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&JobView) -> Result<T, ViewError>,
    ) -> Result<T, Problem> {
        let mut kept = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.take().map_or_else(|| JobView::open_temporary(&self.dir), Ok);
        let mut view = found.map_err(no_view)?;
        match view.refresh() {
            Ok(()) => {}
            Err(error @ ViewError::Partial) => {
                *kept = Some(view);
                return Err(no_view(error));
            }
            // A view that fails is made again.
            Err(error) => return Err(no_view(error)),
        }
        let seen = look(&view);
        *kept = Some(view);
        seen.map_err(no_view)
    }
}
