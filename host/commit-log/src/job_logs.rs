//! The logs of one job. Each run that starts the job over begins a new log. Resumed runs continue the log.

use super::commit_log::{CommitLog, LogFolder, Replay};
use super::error::LogError;
use super::log_store::LogStore;
use std::sync::Arc;

/// The logs of one job, in the job's folder of a store.
///
/// The folder has a list of all runs that began a log (itself a log, in the folder `runs`), and a folder for
/// each of them, named by the run's id.
#[derive(Clone, Debug)]
pub struct JobLogs {
    store: Arc<dyn LogStore>,
}

impl JobLogs {
    /// The logs in the store of one job.
    pub fn new(store: Arc<dyn LogStore>) -> Self {
        Self { store }
    }

    fn runs(&self) -> LogFolder {
        LogFolder { store: self.store.clone(), prefix: "runs/".to_owned() }
    }

    fn of_run(&self, id: &str) -> LogFolder {
        LogFolder { store: self.store.clone(), prefix: format!("{id}/") }
    }

    /// The log of the latest run that began one. `None` if there is none.
    ///
    /// # Errors
    /// If the store fails, or the list of runs is damaged.
    pub fn latest(&self) -> Result<Option<RunLog>, LogError> {
        let mut latest = None;
        self.runs().replay::<LogError>(&mut |replay| {
            let Replay::Record { record, .. } = replay else { return Ok(()) };
            let id = String::from_utf8_lossy(&record.payload).into_owned();
            // A leader that was killed between both records has not begun its log.
            let folder = self.of_run(&id);
            if is_run_id(&id) && folder.read(0)?.is_some() {
                latest = Some(RunLog { id, folder });
            }
            Ok(())
        })?;
        Ok(latest)
    }

    /// Begins the log of a run, with this payload of record 0.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if another process begins a run of this job at the same time. Otherwise as
    /// [`CommitLog::append`].
    pub fn begin(&self, id: &str, payload: &[u8]) -> Result<CommitLog, LogError> {
        let runs = self.runs();
        let count = runs.replay::<LogError>(&mut |_| Ok(()))?;
        CommitLog::new(runs, count).append(id.as_bytes())?;
        let mut log = CommitLog::new(self.of_run(id), 0);
        log.append(payload)?;
        Ok(log)
    }
}

/// The log of one run and of the runs that resumed it.
#[derive(Clone, Debug)]
pub struct RunLog {
    id: String,
    folder: LogFolder,
}

impl RunLog {
    /// The id of the run that began the log.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Reads the latest snapshot, if there is one, and all records after it. Returns the log, ready for the
    /// next record.
    ///
    /// # Errors
    /// Those of `visit`, and if the store fails or the log is damaged.
    pub fn replay<E: From<LogError>>(
        &self,
        visit: &mut dyn FnMut(Replay<'_>) -> Result<(), E>,
    ) -> Result<CommitLog, E> {
        let next = self.folder.replay(visit)?;
        Ok(CommitLog::new(self.folder.clone(), next))
    }
}

/// Whether a text can name a folder of the store. The list of runs is not trusted with paths.
fn is_run_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !id.is_empty() && id != "runs" && id.len() <= 64 && id.chars().all(is_plain)
}
