//! The logs of one job. Each run that starts the job over begins a new log. Resumed runs continue the log.

use super::commit_log::{CommitLog, LogFolder, Replay};
use super::error::LogError;
use super::log_store::LogStore;
use super::record::{LogPosition, RecordDamage};
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

    /// The store of the job.
    pub fn store(&self) -> &Arc<dyn LogStore> {
        &self.store
    }

    fn runs(&self) -> LogFolder {
        LogFolder { store: self.store.clone(), prefix: "runs/".to_owned() }
    }

    fn of_run(&self, id: &str) -> LogFolder {
        LogFolder { store: self.store.clone(), prefix: format!("{id}/") }
    }

    /// Reads the list of runs. Whatever a process decides, it decides for the list that it has read: if another
    /// run is added meanwhile, [`announce`](Self::announce) fails.
    ///
    /// # Errors
    /// If the store fails, or the list is damaged.
    pub fn runs_begun(&self) -> Result<RunList, LogError> {
        let mut ids = Vec::new();
        self.runs().replay::<LogError>(&mut |replay| {
            if let Replay::Record { number, record } = replay {
                let id = String::from_utf8_lossy(&record.payload).into_owned();
                if !is_run_id(&id) {
                    let damage = RecordDamage::NotARecord;
                    return Err(LogError::Damaged { name: self.runs().record(number), damage });
                }
                ids.push(id);
            }
            Ok(())
        })?;
        let last_has_begun = match ids.last() {
            // The record itself may be damaged: then the log can still be superseded.
            Some(id) => self.of_run(id).has(0)?,
            None => false,
        };
        Ok(RunList { ids, last_has_begun })
    }

    /// The log of the latest run that has begun one. `None` if there is none.
    pub fn latest(&self, runs: &RunList) -> Option<RunLog> {
        // A leader was killed, or is about to write record 0 of its log.
        let unbegun = usize::from(!runs.last_has_begun);
        let id = runs.ids.iter().rev().nth(unbegun)?;
        Some(RunLog { id: id.clone(), folder: self.of_run(id) })
    }

    /// Ends the log of the latest run with this payload, so that no leader of that run can commit anything. The
    /// log may be damaged, or not have begun. Call this before anything of the earlier run is removed. Only
    /// `runs` and the log of its last run decide: a run that was added meanwhile is not touched.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if the last run had not begun its log when the list was read, and has begun it since.
    /// Otherwise if the store fails.
    pub fn supersede(&self, runs: &RunList, payload: &[u8]) -> Result<(), LogError> {
        // Each run has ended the log of the one before it.
        let Some(id) = runs.ids.last() else { return Ok(()) };
        match runs.last_has_begun {
            true => self.of_run(id).end(payload),
            false => CommitLog::new(self.of_run(id), 0).append(payload).map(drop),
        }
    }

    /// Adds a run to the list, unless it is the last one and has not begun its log: then its leader was killed
    /// before [`begin`](Self::begin). The logs of all other `runs` must have ended.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if another process has added a run of this job since `runs` was read. Otherwise as
    /// [`CommitLog::append`].
    pub fn announce(&self, runs: &RunList, id: &str) -> Result<(), LogError> {
        if runs.awaits(id) {
            return Ok(());
        }
        CommitLog::new(self.runs(), runs.ids.len() as u64).append(id.as_bytes()).map(drop)
    }

    /// Begins the log of a run that is in the list, with this payload of record 0. Returns the log, and the
    /// position of record 0.
    ///
    /// # Errors
    /// [`LogError::Fenced`] if another process has started the job over meanwhile. Otherwise as
    /// [`CommitLog::append`].
    pub fn begin(&self, id: &str, payload: &[u8]) -> Result<(CommitLog, LogPosition), LogError> {
        let mut log = CommitLog::new(self.of_run(id), 0);
        let position = log.append(payload)?;
        Ok((log, position))
    }
}

/// The runs of a job that have a log, or are about to begin one, in order.
#[derive(Clone, Debug)]
pub struct RunList {
    ids: Vec<String>,
    /// Whether the log of the last run has record 0.
    last_has_begun: bool,
}

impl RunList {
    /// Whether the run is the last one, and has not begun its log.
    pub fn awaits(&self, id: &str) -> bool {
        !self.last_has_begun && self.is_last(id)
    }

    /// Whether no run has a log.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether the run is the last one.
    pub fn is_last(&self, id: &str) -> bool {
        self.ids.last().is_some_and(|last| last == id)
    }

    /// Whether the run is in the list.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.iter().any(|other| other == id)
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

    /// Whether the log has a record with this number.
    ///
    /// # Errors
    /// If the store fails.
    pub fn has(&self, number: u64) -> Result<bool, LogError> {
        self.folder.has(number)
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

    /// Reads all records from number `next` on, for a caller that has read the records before. Returns the number
    /// of the first one that the log does not have.
    ///
    /// # Errors
    /// Those of `visit`, and if the store fails or a record is damaged.
    pub fn read_on<E: From<LogError>>(
        &self,
        next: u64,
        visit: &mut dyn FnMut(Replay<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.folder.read_on(next, visit)
    }
}

/// Whether a text can name a folder of the store. The list of runs is not trusted with paths.
pub fn is_run_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !id.is_empty() && id != "runs" && id.len() <= 64 && id.chars().all(is_plain)
}
