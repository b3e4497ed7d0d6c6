//! The store of a job: a folder that several machines share. It has the job's commit log, from which another
//! machine can continue the job.

use super::claim::JobDirLock;
use super::claim_error::ClaimError;
use super::prepare_error::PrepareError;
use crate::journal::{Journal, JournalError, LogSummary};
use crate::model::JobDir;
use sandmill_commit_log::{CommitLog, FolderStore, JobLogs, LogError};
use serde_json::Value;
use std::error::Error;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of one job.
#[derive(Debug)]
pub(super) struct JobStore {
    logs: JobLogs,
    folder: PathBuf,
}

impl JobStore {
    /// The store of the job `name` in a folder, whose path has no links. The folder must exist, so that a
    /// shared folder that is not mounted is noticed.
    pub(super) fn open(folder: &Path, name: &str) -> Result<Self, ClaimError> {
        if !folder.is_dir() {
            return Err(ClaimError::NoJobStore(folder.to_owned()));
        }
        let folder = folder.join(name);
        // A log that another user can write could make this job continue what never ran.
        if folder.metadata().is_ok_and(|found| !is_own(&found)) {
            return Err(ClaimError::StoreNotOwn(folder));
        }
        let logs = JobLogs::new(Arc::new(FolderStore::new(folder.clone())));
        Ok(Self { logs, folder })
    }

    /// Makes the job directory include everything in the commit log. If the directory is empty, it becomes
    /// the directory of the job that the log describes. Returns the log, to continue it. `None` if the store
    /// has no log that can be continued.
    pub(super) fn catch_up<E: Error + 'static>(
        &self,
        held: &mut JobDirLock,
        job_dir: &JobDir,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<CommitLog>, PrepareError<E>> {
        let run = self.logs.latest().map_err(JournalError::from)?;
        let local = local_run(job_dir)?;
        let Some(run) = run else {
            return match local {
                // The log was there, and is gone: without it, no fence keeps other leaders out.
                Some(local) if local.has_log => {
                    Err(ClaimError::LogGone { dir: held.root(), store: self.folder.clone() }.into())
                }
                _ => Ok(None),
            };
        };
        if let Some(local) = local.as_ref().filter(|local| local.id != run.id()) {
            // A local run that never had a log, or whose log is older.
            return Err(ClaimError::OtherRun {
                dir: held.root(),
                store: self.folder.clone(),
                local: local.id.clone(),
                found: run.id().to_owned(),
            }
            .into());
        }
        let LogSummary { job_state, writer, is_superseded } = LogSummary::read(&run)?;
        if is_superseded {
            return Ok(None);
        }
        if local.is_none() {
            let writer = writer.map_or_else(
                || "another process".to_owned(),
                |writer| format!("process {} on {}", writer.pid, writer.host),
            );
            say(&format!(
                "the job was last run by {writer}; continuing it here, from its commit log in {}",
                self.folder.display()
            ));
            // `job.json` comes first: without it, a directory with a journal is not a job directory.
            held.restore(job_state)?;
        }
        Ok(Some(Journal::catch_up(&job_dir.journal(), &run)?))
    }

    /// Begins a log for a journal, and connects the journal to it. Ends the log of an earlier run first.
    pub(super) fn begin(
        &self,
        journal: &mut Journal,
        job_state: Value,
    ) -> Result<(), JournalError> {
        let id = journal.job()?.id;
        if let Some(earlier) = self.logs.latest()? {
            let mut log = earlier.replay::<LogError>(&mut |_| Ok(()))?;
            Journal::supersede(&mut log, &id)?;
        }
        let state = journal.log_state(job_state.clone())?;
        let log = self.logs.begin(&id, &Journal::first_record(state))?;
        journal.lead(log, job_state)
    }
}

/// Whether only this user can write to a folder.
fn is_own(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

/// The run whose journal a job directory holds.
struct LocalRun {
    id: String,
    /// Whether the journal was connected to a log.
    has_log: bool,
}

/// `None` if there is no journal, or none that can be used.
fn local_run(job_dir: &JobDir) -> Result<Option<LocalRun>, JournalError> {
    let journal = match Journal::open(&job_dir.journal()) {
        Ok(journal) => journal,
        Err(
            JournalError::Missing(_)
            | JournalError::Corrupt { .. }
            | JournalError::Version { found: 0, .. },
        ) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(LocalRun { id: journal.job()?.id, has_log: journal.log_position()?.is_some() }))
}
