//! Decides which job owns a job directory and its output folder.
//!
//! - If the directory is missing or empty, the job begins in it.
//! - If it holds the same job, unfinished, the job can resume.
//! - If it holds the same job, finished or not, the job can start over. This removes what the earlier run
//!   made, but never what a link points to.
//! - If the directory's job is running, or if the directory belongs to another job or is a foreign folder,
//!   the claim is refused, whatever the options say.
//!
//! [`lock_job_dir`] first locks the directory and changes nothing in it. The content of the directory decides
//! whether the job then begins or resumes.

use super::claim_error::ClaimError;
use super::claim_folders::{
    first_entry, make_folder, make_folder_with_mode, missing_folders, refuse_misplaced,
};
use super::folder_lock::FolderLock;
use super::job_state::{
    JobFile, JobStanding, JobState, StartedBy, new_id, new_mark, output_size, sync_name, temporary,
};
use super::reserve::Reserve;
use crate::fail_point;
use crate::files::remove_tree;
use crate::journal::journal_files;
use crate::model::{JobDir, JobResult, JobStatus, only_name, unfinished};
use crate::opening;
use jiff::Timestamp;
use rustix::fs::Mode;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a job needs of its job directory.
#[derive(Clone, Debug)]
pub(super) struct ClaimRequest<'a> {
    pub(super) name: &'a str,
    /// The output folder, without links. `None` means the one in the job directory.
    pub(super) output: Option<&'a Path>,
    /// The address in a store to which the results go from there.
    pub(super) results: Option<String>,
    /// The file in the output folder that rows are appended to.
    pub(super) output_file: Option<&'a str>,
}

/// A locked job directory, in which nothing has been changed yet.
#[derive(Debug)]
pub(super) struct JobDirLock {
    job_dir: JobDir,
    /// The directory's path without links.
    root: PathBuf,
    name: String,
    /// The output folder, without links. It may not exist yet.
    output: PathBuf,
    results: Option<String>,
    output_file: Option<String>,
    earlier: Option<JobState>,
    /// See [`JobDirLock::mark`].
    mark: String,
    started_by: Option<StartedBy>,
    /// The job's folder in the job store, and the id of the run whose commit log is continued, if one is.
    store: Option<(PathBuf, Option<String>)>,
    /// See [`JobState::cancels_from`].
    cancels_from: u64,
    /// Folders that did not exist before, innermost first.
    created: Vec<PathBuf>,
    lock: FolderLock,
    /// The lock on the output folder, if it was taken early.
    output_lock: Option<FolderLock>,
}

/// A job directory that this process owns until the claim is dropped.
#[derive(Debug)]
pub struct Claim {
    state: JobState,
    state_file: PathBuf,
    output: PathBuf,
    /// The state that [`Claim::undo`] restores if the job never begins. `None` if an earlier run was
    /// overwritten.
    before: Option<Before>,
    reserve: Option<Reserve>,
    /// Locks on the job directory and, if the output folder is elsewhere, on that folder.
    locks: (FolderLock, Option<FolderLock>),
}

/// What a job directory was before it was claimed.
#[derive(Debug)]
enum Before {
    /// It held no job.
    Nothing {
        job_dir: JobDir,
        root: PathBuf,
        /// Folders that did not exist before, innermost first.
        created: Vec<PathBuf>,
    },
    /// It held an earlier run of the job, which this run resumes.
    Run(Box<JobState>),
}

impl Claim {
    /// The id of this run. Ids are unique, and sort by time.
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// The output folder. It exists and can be written.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// When this run began.
    pub fn started(&self) -> Timestamp {
        self.state.started
    }

    /// See [`JobState::cancels_from`].
    pub(super) fn cancels_from(&self) -> u64 {
        self.state.cancels_from
    }

    /// Whether this run resumes an earlier run of the job.
    pub fn has_earlier_run(&self) -> bool {
        self.state.times_resumed > 0
    }

    /// What `job.json` says, for the commit log.
    pub(super) fn state(&self) -> serde_json::Value {
        // Plain data always serialises. If it did not, no other machine could continue the job.
        serde_json::to_value(&self.state).unwrap_or_default()
    }

    /// Syncs the folder of the new state file, so that the file's name is durable. [`JobDirLock::begin`] does
    /// not do this in a directory without an earlier run: the caller must call `sync` before it creates the
    /// journal.
    pub(super) fn sync(&self) -> Result<(), ClaimError> {
        match self.before {
            Some(Before::Nothing { .. }) => sync_name(&self.state_file),
            _ => Ok(()),
        }
    }

    /// Reserves disk space for [`end`](Self::end) and for the last reports of the job.
    pub(super) fn reserve_space(&mut self, job_dir: &JobDir) {
        self.reserve = Reserve::new(&job_dir.reserve());
    }

    /// Records in `job.json` how the job ended. If the disk is full, this uses the reserved space. A claim
    /// that is dropped without `end` leaves the job as interrupted.
    pub fn end(&mut self, result: &JobResult) -> Result<(), ClaimError> {
        let state = &mut self.state;
        state.status = result.status.into();
        state.ended = Some(Timestamp::now());
        state.result = Some(result.clone());
        if result.status == JobStatus::Completed {
            state.output_size = Some(output_size(&self.output, state.output_file.as_deref())?);
            state.is_unpublished = state.results.is_some();
        }
        loop {
            let written = state.write(&self.state_file);
            let is_full = written.as_ref().is_err_and(ClaimError::is_full);
            if !is_full || !self.reserve.as_ref().is_some_and(Reserve::free_some) {
                return written;
            }
        }
    }

    /// Whether [`undo`](Self::undo) removes the directory.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.before, Some(Before::Nothing { .. }))
    }

    /// Reverts the claim of a job that never began: removes a directory that was new, and restores the state
    /// of a job that was to resume. If an earlier run was overwritten, the directory stays claimed.
    pub fn undo(&self) -> Result<(), ClaimError> {
        let (job_dir, root, created) = match &self.before {
            None => return Ok(()),
            Some(Before::Run(earlier)) => return earlier.write(&self.state_file),
            Some(Before::Nothing { job_dir, root, created }) => (job_dir, root, created),
        };
        remove_run(job_dir, root, &self.state, &self.output)?;
        remove_tree(&self.state_file).map_err(|e| ClaimError::io("remove", &self.state_file, e))?;
        self.locks.0.remove_file();
        self.locks.1.iter().for_each(FolderLock::remove_file);
        for folder in created {
            // `remove_dir` keeps folders into which another program has meanwhile put something.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Locks the directory for a job. Fails if a job is running in it, or if the directory belongs to another
/// job.
///
/// Changes nothing, except that it creates the directory if it is missing.
pub(super) fn lock_job_dir(
    job_dir: &JobDir,
    wanted: ClaimRequest<'_>,
) -> Result<JobDirLock, ClaimError> {
    let root = resolve(job_dir.root())?;
    let mut created = missing_folders(&root);
    let lock = lock_root(job_dir, &root)?;
    let earlier = read_earlier(job_dir, wanted.name)?;
    let output = match wanted.output {
        Some(path) => path.to_owned(),
        None => resolve(&job_dir.default_output())?,
    };
    refuse_misplaced(job_dir, &root, &output)?;
    if !output.starts_with(&root) {
        created.splice(0..0, missing_folders(&output));
    }
    let mark = earlier.as_ref().map(|earlier| earlier.mark.clone());
    let mark = mark.filter(|mark| !mark.is_empty()).unwrap_or_else(new_mark);
    Ok(JobDirLock {
        job_dir: job_dir.clone(),
        root,
        name: wanted.name.to_owned(),
        output,
        results: wanted.results,
        output_file: wanted.output_file.map(str::to_owned),
        earlier,
        mark,
        started_by: None,
        store: None,
        cancels_from: 0,
        created,
        lock,
        output_lock: None,
    })
}

impl JobDirLock {
    /// Records who starts the run.
    pub(super) fn started_by(self, started_by: StartedBy) -> Self {
        Self { started_by: Some(started_by), ..self }
    }

    /// Records the job's folder in the job store, and the id of the run whose commit log this run continues. `None` if
    /// this run begins one.
    pub(super) fn in_store(self, folder: PathBuf, run: Option<String>) -> Self {
        Self { store: Some((folder, run)), ..self }
    }

    /// See [`JobState::cancels_from`].
    pub(super) fn set_cancels_from(&mut self, records: u64) {
        self.cancels_from = records;
    }

    /// The earlier run that the directory holds.
    pub(super) fn earlier(&self) -> Option<&JobState> {
        self.earlier.as_ref()
    }

    /// The directory, for its paths.
    pub(super) fn job_dir(&self) -> &JobDir {
        &self.job_dir
    }

    /// The directory's path without links.
    pub(super) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Makes the directory that of an interrupted job, which another job directory held before. `state` is
    /// what `job.json` said there.
    pub(super) fn restore(&mut self, mut state: JobState) -> Result<(), ClaimError> {
        state.is_from_log = true;
        self.make_private()?;
        state.write(&self.job_dir.state_file())?;
        if !state.mark.is_empty() {
            self.mark.clone_from(&state.mark);
        }
        self.earlier = Some(state);
        Ok(())
    }

    /// Says what an earlier run made that another job directory held. This run is about to remove it.
    pub(super) fn know_earlier(&mut self, state: JobState) {
        self.earlier = Some(state);
    }

    /// Says that the earlier run is not completed, because another job directory has continued it.
    pub(super) fn reopen(&mut self) {
        if let Some(earlier) = &mut self.earlier
            && earlier.status == JobStanding::Completed
        {
            earlier.status = JobStanding::Running;
        }
    }

    /// Unlocks the directory of a refused job, and removes the folders that this process created.
    pub(super) fn give_up(self) {
        self.lock.remove_file();
        self.output_lock.iter().for_each(FolderLock::remove_file);
        for folder in &self.created {
            // `remove_dir` keeps folders into which another program has meanwhile put something.
            let _ = fs::remove_dir(folder);
        }
    }

    /// The mark that labels what the job makes outside its directory. All runs of the job in this
    /// directory share the mark, and no other job has it.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Whether the job's last run was by a version that had no marks.
    pub(super) fn was_unmarked(&self) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| earlier.mark.is_empty())
    }

    /// The output folder of this run.
    pub(super) fn output(&self) -> &Path {
        &self.output
    }

    /// The output folder of the earlier run. `None` if there was no earlier run.
    pub(super) fn earlier_output(&self) -> Option<PathBuf> {
        self.earlier.as_ref().map(|state| self.root.join(&state.output))
    }

    /// How the output of a completed job differs from the output at the job's end. `None` if nothing differs.
    pub(super) fn output_changed(&self) -> Result<Option<String>, ClaimError> {
        let (Some(earlier), Some(output)) = (&self.earlier, self.earlier_output()) else {
            return Ok(None);
        };
        let recorded = earlier.output_size.filter(|_| output.is_dir());
        let Some(was) = recorded else {
            return Ok(Some(format!("the output folder {} is gone", output.display())));
        };
        let is = output_size(&output, earlier.output_file.as_deref())?;
        let file = output.join(earlier.output_file.as_deref().unwrap_or_default());
        Ok(match (was.file_bytes, is.file_bytes) {
            (Some(_), None) => Some(format!("the output file {} is gone", file.display())),
            (Some(was), Some(is)) if was != is => {
                Some(format!("the output file {} had {was} bytes, now {is}", file.display()))
            }
            _ if is.files < was.files => Some(format!(
                "the output folder {} held {} files, now {}",
                output.display(),
                was.files,
                is.files
            )),
            _ => None,
        })
    }

    /// Begins the job, and removes what an earlier run of it made. Calls `supersede` with the id of this run
    /// before anything is removed. If the output folder cannot be used, this changes nothing, except that it
    /// may create missing folders.
    pub(super) fn begin(
        mut self,
        job_file: Option<JobFile>,
        supersede: &mut dyn FnMut(&str) -> Result<(), ClaimError>,
    ) -> Result<Claim, ClaimError> {
        let output_lock = self.lock_output_folder(true)?;
        self.make_private()?;
        // The log of a new run has no requests yet.
        self.cancels_from = 0;
        let started = Timestamp::now();
        let state = JobState::new(&self.name, new_id(started), started);
        let state = self.with_places(state, job_file);
        let state_file = self.job_dir.state_file();
        state.write_without_folder_sync(&state_file)?;
        fail_point::pass("job-claimed");
        if self.earlier.is_some() {
            // Write the state before the removal. If the removal is interrupted, the directory then holds an
            // unfinished job, not a finished job whose results are missing.
            sync_name(&state_file)?;
        }
        supersede(&state.id)?;
        fail_point::pass("earlier-run-superseded");
        if let Some(earlier) = &self.earlier {
            remove_run(&self.job_dir, &self.root, earlier, &self.output)?;
            fail_point::pass("earlier-run-removed");
        }
        make_folder(&self.output)?;
        let Self { job_dir, root, output, created, lock, earlier, .. } = self;
        let before = earlier.is_none().then_some(Before::Nothing { job_dir, root, created });
        Ok(Claim { state, state_file, output, before, reserve: None, locks: (lock, output_lock) })
    }

    /// Resumes the job that the directory holds. The output folder must be the one of the earlier run, so
    /// that everything in this folder belongs to the job.
    pub(super) fn resume(mut self, job_file: Option<JobFile>) -> Result<Claim, ClaimError> {
        let output_lock = self.lock_output_folder(false)?;
        self.make_private()?;
        let started = Timestamp::now();
        let mut state = JobState::new(&self.name, new_id(started), started);
        if let Some(earlier) = &self.earlier {
            state.begun = earlier.begun;
            state.times_resumed = earlier.times_resumed.saturating_add(1);
            state.is_from_log = earlier.is_from_log;
        }
        let state = self.with_places(state, job_file);
        let state_file = self.job_dir.state_file();
        make_folder(&self.output)?;
        state.write(&state_file)?;
        fail_point::pass("job-resumed");
        let Self { output, lock, earlier, .. } = self;
        let before = earlier.map(|earlier| Before::Run(Box::new(earlier)));
        Ok(Claim { state, state_file, output, before, reserve: None, locks: (lock, output_lock) })
    }

    /// Returns `state`, after setting the fields that say where the job is and where it comes from.
    fn with_places(&self, state: JobState, job_file: Option<JobFile>) -> JobState {
        let below = self.output.strip_prefix(&self.root);
        let output = below.unwrap_or(&self.output).to_owned();
        let mark = self.mark.clone();
        let started_by = self.started_by.clone();
        let output_file = self.output_file.clone();
        let results = self.results.clone();
        let run_folder =
            self.store.as_ref().map(|(folder, run)| folder.join(run.as_ref().unwrap_or(&state.id)));
        let cancels_from = self.cancels_from;
        JobState {
            mark,
            output,
            results,
            output_file,
            run_folder,
            cancels_from,
            started_by,
            job_file,
            ..state
        }
    }

    /// Closes the job directory to other users: its journal and logs contain settings, which may be secrets.
    /// The output folder in it keeps its mode, so that a user can open the job directory to others and share
    /// the output.
    fn make_private(&self) -> Result<(), ClaimError> {
        let failed = |e| ClaimError::io("restrict access to", &self.root, e);
        self.lock.make_private().map_err(failed)?;
        let dir = &self.job_dir;
        let mode = || Permissions::from_mode(0o700);
        for folder in [dir.logs(), dir.parts(), dir.work(), dir.spill()] {
            if folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                // Best effort: the directory around it is already closed.
                let _ = fs::set_permissions(folder, mode());
            }
        }
        Ok(())
    }

    /// Creates and locks an output folder outside the job directory, unless it is locked already. What this
    /// process then reads in a job store stays true: no other process can lead the job.
    pub(super) fn lock_output(&mut self) -> Result<(), ClaimError> {
        if self.output_lock.is_some() {
            return Ok(());
        }
        let output = self.output.as_path();
        make_folder(output)?;
        // Permissions do not show whether files can be created: the file system may be read-only or full.
        let lock = FolderLock::try_lock(output);
        let lock = lock.map_err(|e| ClaimError::folder("write to the output folder", output, e))?;
        if lock.is_none() {
            return Err(ClaimError::OutputInUse(output.to_owned()));
        }
        self.output_lock = lock;
        Ok(())
    }

    /// Creates an output folder outside the job directory, or checks that the existing one may be used, and
    /// locks it. With `must_be_empty`, the folder may hold nothing but the job's own old rows.
    fn lock_output_folder(
        &mut self,
        must_be_empty: bool,
    ) -> Result<Option<FolderLock>, ClaimError> {
        if self.output.starts_with(&self.root) {
            return Ok(None);
        }
        self.lock_output()?;
        let lock = self.output_lock.take();
        let output = self.output.as_path();
        let earlier_in_folder = self.earlier.as_ref().filter(|state| state.output == output);
        let old_file = earlier_in_folder.and_then(|state| state.output_file.as_deref());
        let is_own_rows = |entry: &OsStr, file: &str| entry == file || *entry == *unfinished(file);
        let foreign =
            first_entry(output, |entry| old_file.is_none_or(|file| !is_own_rows(entry, file)))?;
        if let Some(holds) = foreign.filter(|_| must_be_empty) {
            let output = output.to_owned();
            return Err(match earlier_in_folder {
                Some(_) => ClaimError::OutputHasMore { output, holds },
                None => ClaimError::OutputNotEmpty { output, holds },
            });
        }
        Ok(lock)
    }
}

/// Creates the directory if it is missing, accessible only to this user, and locks it.
pub(super) fn lock_root(job_dir: &JobDir, root: &Path) -> Result<FolderLock, ClaimError> {
    root.parent().map_or(Ok(()), make_folder)?;
    make_folder_with_mode(root, Mode::RWXU)?;
    let lock =
        FolderLock::try_lock(root).map_err(|e| ClaimError::io("lock the folder", root, e))?;
    if let Some(lock) = lock {
        return Ok(lock);
    }
    let running = JobState::read(job_dir).ok().flatten();
    let who = running.map_or_else(
        || "another job".to_owned(),
        |state| format!("job '{}' (process {})", state.name, state.pid),
    );
    Err(ClaimError::Running { dir: root.to_owned(), who })
}

/// Reads the state of the job that the directory holds. `None` if the directory is empty. Fails if the
/// directory holds another job, or is not a job directory.
fn read_earlier(job_dir: &JobDir, name: &str) -> Result<Option<JobState>, ClaimError> {
    let dir = || job_dir.root().to_owned();
    let Some(state) = JobState::read(job_dir)? else {
        let leftover = temporary(&job_dir.state_file());
        let is_leftover = |entry: &OsStr| Some(entry) == leftover.file_name();
        return match first_entry(job_dir.root(), |entry| !is_leftover(entry))? {
            Some(holds) => Err(ClaimError::Foreign { dir: dir(), holds }),
            None => Ok(None),
        };
    };
    if state.name != name {
        return Err(ClaimError::OtherJob {
            dir: dir(),
            found: state.name,
            wanted: name.to_owned(),
        });
    }
    Ok(Some(state))
}

/// Removes what a run made: its files in the job directory, and its output. The journal goes first:
/// without it, no later run can resume a half-removed job.
fn remove_run(
    job_dir: &JobDir,
    root: &Path,
    run: &JobState,
    output: &Path,
) -> Result<(), ClaimError> {
    let mut removed = Vec::from(journal_files(&job_dir.journal()));
    removed.extend([job_dir.parts(), job_dir.work(), job_dir.models()]);
    removed.extend([job_dir.links(), job_dir.spill(), job_dir.control_socket()]);
    removed.extend([job_dir.default_output(), job_dir.logs()]);
    // Resolve the path again: the folder may have become a link since the run.
    let old_output = resolve(&root.join(&run.output))?;
    if old_output.starts_with(root) && refuse_misplaced(job_dir, root, &old_output).is_ok() {
        removed.push(old_output);
    } else if run.output == output
        && let Some(file) = run.output_file.as_ref().and_then(|file| only_name(file.as_ref()))
    {
        removed.push(output.join(file));
        removed.push(output.join(unfinished(&file.to_string_lossy())));
    }
    removed.iter().try_for_each(|path| {
        remove_tree(path).map_err(|e| ClaimError::io("remove the earlier run's", path, e))
    })
}

/// The path without links. Its last components need not exist.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, ClaimError> {
    opening::resolve(path).map_err(|e| ClaimError::io("find", path, e))
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
