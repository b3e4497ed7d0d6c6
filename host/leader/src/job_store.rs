//! The store of a job: a folder that several machines share, or a folder in a store such as S3. It has the job's
//! commit log, from which another machine can continue the job.

use super::claim::{Claim, JobDirLock, resolve};
use super::claim_error::ClaimError;
use super::commit::SavedResults;
use super::folder_lock::lock_holder;
use super::job_state::{JobStanding, JobState, workers_of_run};
use super::options::LeaderOptions;
use super::presence::{Presence, is_led};
use super::stored_plan::StoredPlan;
use super::stored_rows::remove_stored_rows;
use super::stored_spill::remove_stored_spill;
use crate::fail_point;
use crate::journal::{Journal, JournalError, LogSummary, directory_id, remove_journal};
use crate::model::{Address, JobDir, JobStatus};
use crate::spec::JobSpec;
use sandmill_commit_log::{
    CommitLog, FolderStore, JobLogs, LogStore, RunList, RunLog, Writer, try_store,
};
use serde_json::Value;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of one job.
#[derive(Debug)]
pub(super) struct JobStore {
    /// The job's name.
    name: String,
    /// The job's commit logs, and the objects of its store.
    logs: JobLogs,
    /// The runs that this process has seen, and on which its decisions rest.
    runs: RunList,
    /// The job's folder or address in the store, for messages.
    place: String,
    /// The job's folder. `None` if the job is at an address.
    folder: Option<PathBuf>,
    /// The address of the results, if they go to a store.
    results: Option<String>,
    /// The job's tenant.
    tenant: String,
    /// Whether the results of a completed job may be reused.
    reuse: bool,
    /// As in [`LeaderOptions::has_waited`].
    has_waited: bool,
    /// Shows that this process is about to continue the latest run.
    presence: Option<Presence>,
    /// As in [`LeaderOptions::take_over`].
    take_over: Option<String>,
}

impl JobStore {
    /// The store of a job in a folder, whose path has no links. The folder must exist, so that a shared folder
    /// that is not mounted is noticed.
    pub(super) fn in_folder(
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
            return Err(ClaimError::StoreNotOwn { folder: folder.display().to_string(), why });
        }
        let objects = Arc::new(FolderStore::new(folder.clone()));
        let place = folder.display().to_string();
        Ok(Self { folder: Some(folder), ..Self::open(objects, place, spec, options)? })
    }

    /// The store of a job whose objects are at an address.
    pub(super) fn at_address(
        objects: Arc<dyn LogStore>,
        address: &Address,
        spec: &JobSpec,
        options: &LeaderOptions,
    ) -> Result<Self, ClaimError> {
        let place = format!("{}/{}", address.to_string().trim_end_matches('/'), spec.name);
        let store = Self::open(objects, place, spec, options)?;
        if store.runs.is_empty() {
            try_store(&**store.objects(), &store.place)?;
        }
        Ok(store)
    }

    fn open(
        objects: Arc<dyn LogStore>,
        place: String,
        spec: &JobSpec,
        options: &LeaderOptions,
    ) -> Result<Self, ClaimError> {
        let logs = JobLogs::new(objects);
        let runs = logs.runs_begun().map_err(JournalError::from)?;
        Ok(Self {
            name: spec.name.clone(),
            logs,
            runs,
            place,
            folder: None,
            results: spec.upload.as_ref().map(Address::to_string),
            tenant: spec.settings.tenant.clone(),
            reuse: options.reuse && spec.settings.allow_reuse,
            has_waited: options.has_waited,
            presence: None,
            take_over: options.take_over.clone(),
        })
    }

    /// Shows other machines that this process leads a run, if no lock does.
    pub(super) fn show_presence(&mut self, run: &str) -> Option<Presence> {
        let shown = self.presence.take();
        if !self.publishes_later() {
            return None;
        }
        Some(shown.unwrap_or_else(|| Presence::show(self.objects().clone(), run)))
    }

    /// Whether results that are complete still have to go to another place. Then no lock keeps another machine from
    /// leading the job at the same time: such a lock is in an output folder that the machines share. So leaders show
    /// their presence. A store at an address has only jobs whose results go to an address.
    pub(super) fn publishes_later(&self) -> bool {
        self.results.is_some()
    }

    /// The plan of a run.
    pub(super) fn plan(&self, run: &str) -> StoredPlan {
        StoredPlan::new(self.objects(), run)
    }

    /// Where copies of the results that count are kept, if the results are on one machine until the job ends.
    pub(super) fn saved_results(&self, run: &str) -> Option<SavedResults> {
        self.results.as_ref().map(|_| SavedResults::new(self.objects().clone(), run))
    }

    /// Fails if another process leads the run, and no lock has shown it.
    fn refuse_if_led(
        &self,
        run: &RunLog,
        writer: Option<&Writer>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ClaimError> {
        if !self.publishes_later() {
            return Ok(());
        }
        let leader = last_writer(writer);
        let mut on_wait = || say(&format!("looking whether {leader} still leads the job"));
        let is_led = is_led(&**self.objects(), run.id(), &mut on_wait);
        if is_led.map_err(|source| self.unavailable(source))? {
            let store = self.place.clone();
            return Err(ClaimError::LedElsewhere { name: self.name.clone(), leader, store });
        }
        Ok(())
    }

    /// The error if another process has locked the output folder, which is `in_use`. Names that process if it leads
    /// this job.
    pub(super) fn name_leader(&self, held: &JobDirLock, in_use: ClaimError) -> ClaimError {
        let led = || {
            let summary = LogSummary::read(&self.logs.latest(&self.runs)?).ok()?;
            let holder = lock_holder(held.output())?;
            let writer =
                summary.writer.filter(|writer| writer.pid == holder && !is_known_dead(writer));
            self.state(summary.job_state, held).ok()?;
            let (name, store) = (self.name.clone(), self.place.clone());
            Some(ClaimError::LedElsewhere { name, leader: last_writer(Some(&writer?)), store })
        };
        led().unwrap_or(in_use)
    }

    fn unavailable(&self, source: io::Error) -> JournalError {
        JournalError::no_store(self.place.clone(), source)
    }

    /// Makes the job directory include everything in the commit log. If the directory is empty, it becomes
    /// the directory of the job that the log describes. Returns the log, to continue it. `None` if the store
    /// has no log that can be continued.
    pub(super) fn catch_up(
        &mut self,
        held: &mut JobDirLock,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<CommitLog>, ClaimError> {
        let local = LocalRun::read(held.job_dir())?;
        let Some(run) = self.logs.latest(&self.runs) else {
            self.check_take_over(None, held)?;
            return self.without_log(held, local.as_ref()).map(|()| None);
        };
        let summary = LogSummary::read(&run)?;
        self.check_take_over(Some(run.id()).filter(|_| !summary.is_superseded), held)?;
        let is_local = local.as_ref().is_some_and(|local| local.id == run.id());
        // The log of a local run in the list has ended, if it is not the latest one.
        let is_obsolete =
            local.as_ref().is_some_and(|local| !is_local && self.runs.contains(&local.id));
        if summary.is_superseded {
            if is_local && local.as_ref().is_some_and(LocalRun::is_unused) {
                // The run was superseded before it could begin, so it has no results.
                remove_journal(&held.job_dir().journal())?;
                return Ok(None);
            }
            let has_meaning = match &local {
                Some(local) => is_local || local.has_log || is_obsolete,
                // The output still has the results of the earlier run.
                None => self.state(summary.job_state, held).is_ok_and(|state| has_output(&state)),
            };
            if has_meaning {
                let store = self.place.clone();
                return Err(ClaimError::StartedOver { dir: held.root(), store });
            }
            return Ok(None);
        }
        if let Some(local) = local.filter(|_| !is_local && !is_obsolete) {
            return Err(ClaimError::OtherRun {
                dir: held.root(),
                store: self.place.clone(),
                local: local.id,
                found: run.id().to_owned(),
            });
        }
        self.continue_run(&run, &summary, is_local, held, say).map(Some)
    }

    /// Checks that the run to be taken over is the latest one.
    fn check_take_over(&self, latest: Option<&str>, held: &JobDirLock) -> Result<(), ClaimError> {
        match &self.take_over {
            Some(asked) if latest != Some(asked) => Err(ClaimError::NotLatest {
                dir: held.root(),
                store: self.place.clone(),
                run: asked.clone(),
            }),
            _ => Ok(()),
        }
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
            return Err(ClaimError::LogGone { dir: held.root(), store: self.place.clone() });
        }
        Ok(())
    }

    fn continue_run(
        &mut self,
        run: &RunLog,
        summary: &LogSummary,
        is_local: bool,
        held: &mut JobDirLock,
        say: &mut dyn FnMut(&str),
    ) -> Result<CommitLog, ClaimError> {
        let journal = held.job_dir().journal();
        let is_own = summary.directory == directory_id(&journal);
        let state = self.state(summary.job_state.clone(), held)?;
        held.set_cancels_from(summary.cancels_from(state.cancels_from));
        let name = || state.name.clone();
        if !is_own {
            self.refuse_if_led(run, summary.writer.as_ref(), say)?;
        }
        let can_reuse = is_own || self.can_reuse(run, &state)?;
        let store = || self.place.clone();
        let takes_over = self.take_over.is_some();
        match summary.status {
            Some(status @ (JobStatus::Failed | JobStatus::Cancelled))
                if takes_over || (self.has_waited && !is_own) =>
            {
                return Err(ClaimError::EndedElsewhere { name: name(), status, store: store() });
            }
            Some(status @ JobStatus::Completed) if takes_over && !can_reuse => {
                return Err(ClaimError::EndedElsewhere { name: name(), status, store: store() });
            }
            Some(JobStatus::Completed) if !can_reuse => {
                let output = self.output_shown(held.output());
                if self.has_waited && self.reuse && self.results.is_some() {
                    return Err(ClaimError::CompletedElsewhere { name: name(), output });
                }
                return Err(ClaimError::FinishedElsewhere { name: name(), output, store: store() });
            }
            _ => {}
        }
        if self.publishes_later() {
            self.presence = Some(Presence::show(self.objects().clone(), run.id()));
        }
        let is_completed = summary.status == Some(JobStatus::Completed);
        if is_local {
            if !is_completed {
                held.reopen();
            }
        } else {
            let writer = last_writer(summary.writer.as_ref());
            let log = &self.place;
            say(&if is_completed {
                format!("the job was completed by {writer}; using its results (commit log: {log})")
            } else {
                format!(
                    "the job was last run by {writer}; continuing it here, from its commit log in {log}"
                )
            });
            // A journal of a run that was started over has no meaning any longer.
            remove_journal(&journal)?;
            let state = match summary.status {
                Some(ended @ (JobStatus::Failed | JobStatus::Cancelled)) => {
                    JobState { status: ended.into(), ..state }
                }
                // The results are made again from the log.
                Some(JobStatus::Completed) | None => state,
            };
            // `job.json` comes first: without it, a directory with a journal is not a job directory.
            held.restore(state)?;
        }
        Ok(Journal::catch_up(&journal, run)?)
    }

    /// Checks that the job may be started over, if the store has a log of it. If another job directory has
    /// written the log, this one then knows what to remove from the output.
    pub(super) fn check_overwrite(
        &self,
        held: &mut JobDirLock,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ClaimError> {
        let Some(run) = self.logs.latest(&self.runs) else { return Ok(()) };
        let is_local = LocalRun::read(held.job_dir())?.is_some_and(|local| local.id == run.id());
        if is_local && !self.publishes_later() {
            return Ok(());
        }
        // A damaged log can be superseded, too. What is intact of it says what to remove.
        let summary = LogSummary::read_intact(&run)?;
        let is_own = summary.directory == directory_id(&held.job_dir().journal());
        if !is_own {
            self.refuse_if_led(&run, summary.writer.as_ref(), say)?;
        }
        if is_local {
            return Ok(());
        }
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
        let store = || self.place.clone();
        let state = JobState::parse(job_state)
            .map_err(|what| ClaimError::UnknownStateInLog { store: store(), what })?;
        let tenant = state.started_by.as_ref().map_or("", |started_by| &started_by.tenant);
        // Results that go to an address are in the job directory first, which differs.
        let is_same = match &self.results {
            Some(address) => state.results.as_ref() == Some(address),
            None => state.results.is_none() && state.output == held.output(),
        };
        if is_same && tenant == self.tenant {
            return Ok(state);
        }
        let output = state.results.unwrap_or_else(|| state.output.display().to_string());
        Err(ClaimError::StoreTaken { name: state.name, output, store: store() })
    }

    /// Whether this machine can continue with the results of a completed run: they are in the output folder, or they
    /// still have to go to the store.
    fn can_reuse(&self, run: &RunLog, state: &JobState) -> Result<bool, ClaimError> {
        if self.results.is_none() {
            return Ok(self.reuse && has_output(state));
        }
        let saved = SavedResults::new(self.objects().clone(), run.id());
        Ok(!saved.are_removed().map_err(|source| self.unavailable(source))?)
    }

    /// The place of the results, for messages.
    fn output_shown(&self, folder: &Path) -> String {
        self.results.clone().unwrap_or_else(|| folder.display().to_string())
    }

    /// Ends the log of the latest run, because the run `id` starts the job over. From now on, no leader of
    /// an earlier run can commit anything.
    pub(super) fn supersede(&self, id: &str) -> Result<(), JournalError> {
        let earlier = self.logs.latest(&self.runs);
        self.logs.supersede(&self.runs, &Journal::superseded(Some(id)))?;
        let Some(earlier) = earlier else { return Ok(()) };
        // Copies that stay do no harm.
        let _ = remove_stored_spill(&**self.objects(), earlier.id());
        if self.results.is_some() {
            let _ = SavedResults::new(self.objects().clone(), earlier.id()).remove();
            let _ = remove_stored_rows(&**self.objects(), earlier.id());
        }
        Ok(())
    }

    fn objects(&self) -> &Arc<dyn LogStore> {
        self.logs.store()
    }

    /// The commit logs of the job.
    pub(super) fn logs(&self) -> &JobLogs {
        &self.logs
    }

    /// The job's folder or address in the store.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The job's folder in the store. `None` if the store is not a folder.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The directory for the files of a run's workers, if they run on several machines.
    /// `None` if the store is not a folder.
    pub(super) fn worker_dir(&self, run: &str) -> Option<JobDir> {
        Some(worker_dir(self.folder.as_ref()?, run))
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
    workers_of_run(&folder.join(run))
}

/// The objects of a job in a store that is a folder.
///
/// # Errors
/// If the folder's path cannot be resolved.
pub fn folder_objects(store: &Path, job: &str) -> Result<Arc<dyn LogStore>, ClaimError> {
    Ok(Arc::new(FolderStore::new(resolve(store)?.join(job))))
}

/// The file in which a process writes at intervals that waits to lead the job. `worker_dir`: as [`worker_dir`] returns it.
pub(super) fn successor_file(worker_dir: &JobDir) -> PathBuf {
    worker_dir.root().join("successor")
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

/// Whether this process was on this machine, and has ended.
fn is_known_dead(writer: &Writer) -> bool {
    let process = Path::new("/proc").join(writer.pid.to_string());
    writer.host == Writer::this_process().host && !process.exists()
}

/// The last writer of a log, for messages.
fn last_writer(writer: Option<&Writer>) -> String {
    writer.map_or_else(
        || "another process".to_owned(),
        |writer| format!("process {} on {}", writer.pid, writer.host),
    )
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
    pub(super) id: String,
    /// Whether the journal was connected to a log.
    pub(super) has_log: bool,
    /// Whether the journal says that the job is completed.
    is_completed: bool,
    /// Whether the journal says that a mini-batch is committed.
    has_entries: bool,
}

impl LocalRun {
    /// `None` if there is no journal, or none that can be used.
    pub(super) fn read(job_dir: &JobDir) -> Result<Option<Self>, JournalError> {
        let Some(journal) = Journal::open_if_usable(&job_dir.journal())? else { return Ok(None) };
        let is_completed = journal.finished()? == Some(JobStatus::Completed);
        let has_log = journal.log_position()?.is_some();
        let has_entries = journal.has_entries();
        Ok(Some(Self { id: journal.job()?.id, has_log, is_completed, has_entries }))
    }

    /// Whether nothing depends on the run: it never had a log, and nothing is committed.
    fn is_unused(&self) -> bool {
        !self.has_log && !self.has_entries && !self.is_completed
    }
}
