//! A job in a job store, as commands on any machine see it: its state, whether a process leads it, and its logs, which
//! are fetched into a folder of this machine.

use super::cancel_requests::{CancelRequest, CancelRequests};
use super::claim_error::ClaimError;
use super::copied_logs::{copied_logs_folder, copies_of, remove_unused, state_file};
use super::folder_lock::is_locked;
use super::job_state::JobState;
use super::job_store::worker_dir;
use super::published::is_unpublished;
use super::shared_logs::{CopiedLeader, CopyError, LastWord, fetch, leaders, read_last_word};
use super::stored_place::{StorePlace, StoredPlace};
use super::view_error::ViewError;
use crate::files::remove_tree;
use crate::journal::{JournalError, LogSummary};
use crate::model::{JobDir, JobStatus, LOCK_FILE};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use sandmill_commit_log::{JobLogs, LogError, RunLog};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A leader that has said nothing for this long is dead. It says something every few seconds.
const SILENT_AFTER: Duration = Duration::from_secs(30);
/// Incremented when the copies change incompatibly.
const VERSION: u32 = 1;

/// A job in a job store. [`read_state`](Self::read_state) reads its state, and [`read_logs`](Self::read_logs) its logs,
/// too.
#[derive(Debug)]
pub struct StoredView {
    place: StoredPlace,
    /// The folder on this machine for copies of the job's logs.
    copies: PathBuf,
    copied: Copied,
    is_live: bool,
    /// As [`JobState::is_unpublished`].
    is_unpublished: bool,
    last_word: Option<LastWord>,
    cancel: Option<CancelRequest>,
}

/// What the folder of copies has.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Copied {
    version: u32,
    /// The id of the run that began the commit log.
    run: String,
    summary: LogSummary,
    leaders: Vec<CopiedLeader>,
}

impl StoredView {
    /// Finds a job in the job store, and reads its state. `cache`: the user's cache folder.
    ///
    /// # Errors
    /// If there is no such job, if the store fails, or if the cache folder cannot be used.
    pub fn open(store: &StorePlace, name: &str, cache: &Path) -> Result<Self, ViewError> {
        remove_unused(&copied_logs_folder(cache));
        let failed = |source| JournalError::no_store(store.shown().to_owned(), source);
        let Some(place) = store.find(name).map_err(failed)? else {
            return Err(ViewError::no_job(store.shown(), name, &store.begun().map_err(failed)?));
        };
        let mut view = Self {
            copies: copies_of(cache, &place.shown, name),
            place,
            copied: Copied::default(),
            is_live: false,
            is_unpublished: false,
            last_word: None,
            cancel: None,
        };
        view.read_state()?;
        Ok(view)
    }

    /// Reads what is new of the job's state.
    ///
    /// # Errors
    /// If the store fails, if its content cannot be understood, or if the cache folder cannot be used.
    pub fn read_state(&mut self) -> Result<(), ViewError> {
        self.read(false)
    }

    /// Reads what is new of the job's state and logs. If the job has no process, everything that its process wrote is
    /// then there.
    ///
    /// # Errors
    /// As for [`read_state`](Self::read_state).
    pub fn read_logs(&mut self) -> Result<(), ViewError> {
        self.read(true)
    }

    fn read(&mut self, with_logs: bool) -> Result<(), ViewError> {
        let run = self.latest_run()?;
        let lock = self.lock_copies(run.id())?;
        let result = self.read_run(&run);
        let result =
            if with_logs { result.and_then(|()| self.fetch_logs(run.id())) } else { result };
        // What was copied before an error stays.
        let recorded = self.copied.write(&state_file(&self.copies));
        drop(lock);
        result?;
        recorded.map_err(|source| ViewError::cache(&self.copies, source))
    }

    fn latest_run(&self) -> Result<RunLog, ViewError> {
        let logs = &self.place.logs;
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        let not_begun = || ViewError::NotBegun { name: self.place.name.clone() };
        logs.latest(&runs).ok_or_else(not_begun)
    }

    fn read_run(&mut self, run: &RunLog) -> Result<(), ViewError> {
        let last_word = read_last_word(self.place.logs.store(), run.id());
        self.last_word = last_word.map_err(JournalError::from)?;
        self.copied.summary.read_on(run)?;
        let state = self.state()?;
        let objects = self.place.logs.store();
        let unpublished = is_unpublished(objects, run.id(), (self.status(), &state));
        self.is_unpublished =
            unpublished.map_err(|e| JournalError::no_store(self.place.shown.clone(), e))?;
        let cancel = pending_cancel(&self.place.logs, run.id(), &self.copied.summary, &state);
        self.cancel = cancel.map_err(JournalError::from)?;
        self.is_live = is_live(state.shared_output(), self.last_word.as_ref());
        Ok(())
    }

    fn fetch_logs(&mut self, run: &str) -> Result<(), ViewError> {
        let store = self.place.logs.store();
        let leaders = leaders(store, run).map_err(JournalError::from)?;
        let known = std::mem::take(&mut self.copied.leaders);
        for leader in &leaders {
            let copied = known.iter().find(|copied| copied.epoch == leader.epoch).cloned();
            let copied = copied.unwrap_or(CopiedLeader { epoch: leader.epoch, next: 0 });
            self.copied.leaders.push(copied);
        }
        for index in 0..self.copied.leaders.len() {
            let copied = &mut self.copied.leaders[index];
            let to = leader_dir(&self.copies, run, copied.epoch);
            fetch(store, run, copied, &to).map_err(|error| match error {
                CopyError::Store(error) => JournalError::from(error).into(),
                CopyError::Chunk(what) => {
                    ViewError::Logs { place: format!("{}/{run}/logs", self.place.shown), what }
                }
                CopyError::Folder(source) => ViewError::cache(&self.copies, source),
            })?;
        }
        for gone in known.iter().filter(|known| leaders.iter().all(|it| it.epoch != known.epoch)) {
            // The logs of a later leader include these.
            let _ = remove_tree(leader_dir(&self.copies, run, gone.epoch).root());
        }
        Ok(())
    }

    /// Locks the folder of copies, and reads what it has. If it has another run, begins with nothing.
    fn lock_copies(&mut self, run: &str) -> Result<File, ViewError> {
        let cannot = |source| ViewError::cache(&self.copies, source);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.copies).map_err(cannot)?;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(self.copies.join("lock")).map_err(cannot)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from).map_err(cannot)?;
        self.copied = Copied::read(&state_file(&self.copies));
        if self.copied.version != VERSION || self.copied.run != run {
            for entry in fs::read_dir(&self.copies).map_err(cannot)?.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove_tree(&entry.path()).map_err(cannot)?;
                }
            }
            let run = run.to_owned();
            self.copied = Copied { version: VERSION, run, ..Copied::default() };
        }
        Ok(lock)
    }

    /// The job's state, as its last leader wrote it when it began. The status is that of the commit log.
    ///
    /// # Errors
    /// If this version cannot read it.
    pub fn state(&self) -> Result<JobState, ViewError> {
        let summary = &self.copied.summary;
        let mut state = JobState::parse(summary.job_state.clone()).map_err(|what| {
            ClaimError::UnknownStateInLog { store: self.place.shown.clone(), what }
        })?;
        if let Some(status) = self.status() {
            state.status = status.into();
            state.is_unpublished = self.is_unpublished;
            let ended = self.last_word.as_ref().filter(|word| word.has_ended);
            state.ended = ended.map(|word| word.at);
        }
        Ok(state)
    }

    /// How the job ended. `None` if it has not ended.
    pub fn status(&self) -> Option<JobStatus> {
        self.copied.summary.status
    }

    /// Whether the job is being started over, or did not begin, so that this run of it does not count.
    pub fn is_superseded(&self) -> bool {
        self.copied.summary.is_superseded
    }

    /// Whether a process leads the job, or is about to.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// What the latest leader said last. `None` if it was of an earlier version of Sandmill.
    pub fn last_word(&self) -> Option<&LastWord> {
        self.last_word.as_ref()
    }

    /// The last request to cancel the job that still counts.
    pub fn cancel_request(&self) -> Option<&CancelRequest> {
        self.cancel.as_ref()
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// The job's folder or address in the store.
    pub fn place(&self) -> &str {
        &self.place.shown
    }

    /// The folders with the log trees of the job's leaders, the latest one last.
    pub fn leader_logs(&self) -> Vec<JobDir> {
        let dir = |copied: &CopiedLeader| leader_dir(&self.copies, &self.copied.run, copied.epoch);
        self.copied.leaders.iter().map(dir).collect()
    }

    /// The folder to which nodes on other machines write their logs. `None` if the store is at an address.
    pub fn node_logs(&self) -> Option<JobDir> {
        Some(worker_dir(self.place.folder.as_ref()?, &self.copied.run))
    }

    /// Requests that the job ends.
    ///
    /// # Errors
    /// If the store fails.
    pub fn request_cancel(&self, at_once: bool) -> Result<(), ViewError> {
        let requests = CancelRequests::of_run(self.place.logs.store(), &self.copied.run);
        let added = requests.add(at_once, self.copied.summary.records);
        Ok(added.map_err(JournalError::from)?)
    }
}

impl Copied {
    /// What was recorded. Nothing, if it cannot be read.
    fn read(path: &Path) -> Self {
        let text = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let temporary = path.with_extension("json.new");
        fs::write(&temporary, serde_json::to_vec(self)?)?;
        fs::rename(temporary, path)
    }
}

/// The last request to cancel a run that the record of a later end has not consumed.
pub(super) fn pending_cancel(
    logs: &JobLogs,
    run: &str,
    summary: &LogSummary,
    state: &JobState,
) -> Result<Option<CancelRequest>, LogError> {
    let requests = CancelRequests::of_run(logs.store(), run);
    let first = summary.cancels_from(state.cancels_from);
    Ok(requests.since(0, first)?.pop())
}

/// Whether a process leads a job with this output folder. If the folder is not on this machine, the leader's last word
/// decides.
pub(super) fn is_live(output: Option<&Path>, last_word: Option<&LastWord>) -> bool {
    if output.is_some_and(is_locked) {
        return true;
    }
    // A killed leader leaves the lock's file.
    if output.is_some_and(|output| output.join(LOCK_FILE).exists()) {
        return false;
    }
    last_word.is_some_and(|word| {
        let age = Timestamp::now().duration_since(word.at).unsigned_abs();
        !word.has_ended && age < SILENT_AFTER
    })
}

/// The folder for the copy of a leader's logs.
fn leader_dir(copies: &Path, run: &str, epoch: u64) -> JobDir {
    JobDir::new(copies.join(run).join(epoch.to_string()))
}
