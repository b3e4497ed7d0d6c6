//! The store of a job: a folder that several machines share. It has the job's commit log, from which another
//! machine can continue the job.

use super::claim::{Claim, JobDirLock};
use super::claim_error::ClaimError;
use super::job_state::{JobStanding, JobState};
use super::options::LeaderOptions;
use crate::fail_point;
use crate::journal::{Journal, JournalError, LogSummary, directory_id, remove_journal};
use crate::model::{JobDir, JobStatus};
use crate::spec::JobSpec;
use sandmill_commit_log::{CommitLog, FolderStore, JobLogs, RunList, RunLog};
use serde_json::Value;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of one job.
#[derive(Debug)]
pub(super) struct JobStore {
    logs: JobLogs,
    /// The runs that this process has seen, and on which its decisions rest.
    runs: RunList,
    /// The job's folder in the store.
    folder: PathBuf,
    /// The job's tenant.
    tenant: String,
    /// Whether the results of a completed job may be reused.
    reuse: bool,
    /// As in [`LeaderOptions::has_waited`].
    has_waited: bool,
}

impl JobStore {
    /// The store of a job in a folder, whose path has no links. The folder must exist, so that a shared folder
    /// that is not mounted is noticed.
    pub(super) fn open(
        folder: &Path,
        spec: &JobSpec,
        options: &LeaderOptions,
    ) -> Result<Self, ClaimError> {
        if !folder.is_dir() {
            return Err(ClaimError::NoJobStore(folder.to_owned()));
        }
        let folder = folder.join(&spec.name);
        // A log that another user can write could make this job continue what never ran.
        if let Some(why) = folder.metadata().ok().and_then(|found| why_not_own(&found)) {
            return Err(ClaimError::StoreNotOwn { folder, why });
        }
        let logs = JobLogs::new(Arc::new(FolderStore::new(folder.clone())));
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        let tenant = spec.settings.tenant.clone();
        let reuse = options.reuse && spec.settings.allow_reuse;
        Ok(Self { logs, runs, folder, tenant, reuse, has_waited: options.has_waited })
    }

    /// Makes the job directory include everything in the commit log. If the directory is empty, it becomes
    /// the directory of the job that the log describes. Returns the log, to continue it. `None` if the store
    /// has no log that can be continued.
    pub(super) fn catch_up(
        &self,
        held: &mut JobDirLock,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<CommitLog>, ClaimError> {
        let local = LocalRun::read(held.job_dir())?;
        let Some(run) = self.logs.latest(&self.runs) else {
            return self.without_log(held, local.as_ref()).map(|()| None);
        };
        let summary = LogSummary::read(&run)?;
        let is_local = local.as_ref().is_some_and(|local| local.id == run.id());
        // The log of a local run in the list has ended, if it is not the latest one.
        let is_obsolete =
            local.as_ref().is_some_and(|local| !is_local && self.runs.contains(&local.id));
        if summary.is_superseded {
            let has_meaning = match &local {
                Some(local) => is_local || local.has_log || is_obsolete,
                // The output still has the results of the earlier run.
                None => self.state(summary.job_state, held).is_ok_and(|state| has_output(&state)),
            };
            if has_meaning {
                let store = self.folder.clone();
                return Err(ClaimError::StartedOver { dir: held.root(), store });
            }
            return Ok(None);
        }
        if let Some(local) = local.filter(|_| !is_local && !is_obsolete) {
            return Err(ClaimError::OtherRun {
                dir: held.root(),
                store: self.folder.clone(),
                local: local.id,
                found: run.id().to_owned(),
            });
        }
        self.continue_run(&run, summary, is_local, held, say).map(Some)
    }

    /// Checks a job directory whose job has no log in the store.
    fn without_log(&self, held: &JobDirLock, local: Option<&LocalRun>) -> Result<(), ClaimError> {
        let earlier = held.earlier();
        let has_ended = earlier.is_some_and(|run| run.status == JobStanding::Completed)
            || local.is_some_and(|local| local.is_completed);
        let has_log = local.is_some_and(|local| local.has_log)
            || earlier.is_some_and(|earlier| earlier.is_from_log);
        // The log was there, and is gone: without it, no fence keeps other leaders out.
        if has_log && !has_ended {
            return Err(ClaimError::LogGone { dir: held.root(), store: self.folder.clone() });
        }
        Ok(())
    }

    fn continue_run(
        &self,
        run: &RunLog,
        summary: LogSummary,
        is_local: bool,
        held: &mut JobDirLock,
        say: &mut dyn FnMut(&str),
    ) -> Result<CommitLog, ClaimError> {
        let journal = held.job_dir().journal();
        let is_own = summary.directory == directory_id(&journal);
        let state = self.state(summary.job_state, held)?;
        let name = || state.name.clone();
        let can_reuse = is_own || (self.reuse && has_output(&state));
        let store = || self.folder.clone();
        match summary.status {
            Some(status @ (JobStatus::Failed | JobStatus::Cancelled))
                if self.has_waited && !is_own =>
            {
                return Err(ClaimError::EndedElsewhere { name: name(), status, store: store() });
            }
            Some(JobStatus::Completed) if !can_reuse => {
                let output = held.output().to_owned();
                return Err(ClaimError::FinishedElsewhere { name: name(), output, store: store() });
            }
            _ => {}
        }
        let is_completed = summary.status == Some(JobStatus::Completed);
        if is_local {
            if !is_completed {
                held.reopen();
            }
        } else {
            let writer = summary.writer.map_or_else(
                || "another process".to_owned(),
                |writer| format!("process {} on {}", writer.pid, writer.host),
            );
            let log = self.folder.display();
            say(&if is_completed {
                format!("the job was completed by {writer}; using its results (commit log: {log})")
            } else {
                format!(
                    "the job was last run by {writer}; continuing it here, from its commit log in {log}"
                )
            });
            // A journal of a run that was started over has no meaning any longer.
            remove_journal(&journal)?;
            // `job.json` comes first: without it, a directory with a journal is not a job directory.
            held.restore(state)?;
        }
        Ok(Journal::catch_up(&journal, run)?)
    }

    /// Checks that the job may be started over, if the store has a log of it. If another job directory has
    /// written the log, this one then knows what to remove from the output.
    pub(super) fn check_overwrite(&self, held: &mut JobDirLock) -> Result<(), ClaimError> {
        let Some(run) = self.logs.latest(&self.runs) else { return Ok(()) };
        if LocalRun::read(held.job_dir())?.is_some_and(|local| local.id == run.id()) {
            return Ok(());
        }
        // A damaged log can be superseded, too. What is intact of it says what to remove.
        let summary = LogSummary::read_intact(&run)?;
        match self.state(summary.job_state, held) {
            Ok(state) => held.know_earlier(state),
            Err(taken @ ClaimError::StoreTaken { .. }) if !summary.is_superseded => {
                return Err(taken);
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// The job that a log describes. Fails if it is another job of the same name.
    fn state(&self, job_state: Value, held: &JobDirLock) -> Result<JobState, ClaimError> {
        let store = || self.folder.clone();
        let state = JobState::parse(job_state)
            .map_err(|what| ClaimError::UnknownStateInLog { store: store(), what })?;
        let tenant = state.started_by.as_ref().map_or("", |started_by| &started_by.tenant);
        if state.output == held.output() && tenant == self.tenant {
            return Ok(state);
        }
        Err(ClaimError::StoreTaken { name: state.name, output: state.output, store: store() })
    }

    /// Ends the log of the latest run, because the run `id` starts the job over. From now on, no leader of
    /// an earlier run can commit anything.
    pub(super) fn supersede(&self, id: &str) -> Result<(), JournalError> {
        Ok(self.logs.supersede(&self.runs, &Journal::superseded(Some(id)))?)
    }

    /// The directory for the files of a run's workers, if they run on several machines.
    pub(super) fn worker_dir(&self, run: &str) -> JobDir {
        worker_dir(&self.folder, run)
    }

    /// Begins a log for a journal, and connects the journal to it. The journal may be one that had no log before.
    /// Then the earlier runs in the store have ended.
    pub(super) fn begin(
        &self,
        journal: &mut Journal,
        job_state: Value,
    ) -> Result<(), JournalError> {
        let id = journal.job()?.id;
        // For a new journal, the claim of the job directory has done this.
        if !journal.is_new() && !self.runs.awaits(&id) {
            self.supersede(&id)?;
        }
        self.logs.announce(&self.runs, &id)?;
        fail_point::pass("run-announced");
        let state = journal.log_state(job_state.clone())?;
        let (log, begun) = self.logs.begin(&id, &Journal::first_record(state))?;
        journal.connect(log, begun, job_state)
    }
}

/// The directory for the files of a run's workers, if they run on several machines. `folder`: the job's folder
/// in the store.
pub fn worker_dir(folder: &Path, run: &str) -> JobDir {
    JobDir::new(folder.join(run).join("workers"))
}

/// Reverts the claim of a job that never began, and ends its log.
pub(super) fn undo(claim: &Claim, store: Option<&JobStore>) -> Result<(), ClaimError> {
    if let Some(store) = store.filter(|_| claim.is_new()) {
        // The log ends first: while there is a log that counts, another machine continues the job.
        let runs = store.logs.runs_begun().map_err(JournalError::from)?;
        if runs.is_last(claim.id()) {
            let ended = store.logs.supersede(&runs, &Journal::superseded(None));
            ended.map_err(JournalError::from)?;
        }
    }
    claim.undo()
}

/// Whether the output folder has the output file of a completed job.
fn has_output(state: &JobState) -> bool {
    state.output_file.as_ref().is_none_or(|file| state.output.join(file).exists())
}

/// Why a folder of commit logs cannot be trusted. `None` if only this user can write to it.
fn why_not_own(found: &Metadata) -> Option<String> {
    let owner = found.uid();
    let user = rustix::process::geteuid().as_raw();
    if owner != user {
        return Some(format!(
            "it belongs to the user with the ID {owner}, and sandmill runs as {user} (a shared folder may \
             replace the user root by another one)"
        ));
    }
    (found.mode() & 0o022 != 0).then(|| "other users can write to it".to_owned())
}

/// The run whose journal a job directory holds.
pub(super) struct LocalRun {
    id: String,
    /// Whether the journal was connected to a log.
    pub(super) has_log: bool,
    /// Whether the journal says that the job is completed.
    is_completed: bool,
}

impl LocalRun {
    /// `None` if there is no journal, or none that can be used.
    pub(super) fn read(job_dir: &JobDir) -> Result<Option<Self>, JournalError> {
        let Some(journal) = Journal::open_if_usable(&job_dir.journal())? else { return Ok(None) };
        let is_completed = journal.finished()? == Some(JobStatus::Completed);
        let has_log = journal.log_position()?.is_some();
        Ok(Some(Self { id: journal.job()?.id, has_log, is_completed }))
    }
}
