//! Whose a job directory is, and its output folder.
//!
//! Nothing there: it is made. The same job, unfinished: it may be taken up where it was. The same
//! job, finished or not, may be begun anew, which removes what the job itself made and follows no
//! links. Running, another job's, or anybody else's folder: refused, whatever is asked.
//!
//! First a directory is held ([`hold`]), which changes nothing in it; what was found there decides
//! whether it is then begun or taken up.

use super::claim_error::ClaimError;
use super::folder_lock::FolderLock;
use super::job_state::{
    JobFile, JobState, StartedBy, new_id, new_mark, output_size, sync_name, temporary,
};
use super::reserve::Reserve;
use crate::fail_point;
use crate::files::remove_tree;
use crate::model::{JobDir, JobResult, JobStatus, LOCK_FILE, unfinished};
use crate::opening::{self, folder_at_its_path};
use jiff::Timestamp;
use rustix::fs::Mode;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// What is wanted of a job directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The job.
    pub(super) name: &'a str,
    /// The output folder, without links; none for the job directory's own.
    pub(super) output: Option<&'a Path>,
    /// The file in it that rows are appended to.
    pub(super) output_file: Option<&'a str>,
}

/// A job directory that nobody else can use. Nothing in it was changed.
#[derive(Debug)]
pub(super) struct Held {
    job_dir: JobDir,
    /// The directory without links.
    root: PathBuf,
    name: String,
    /// The output folder, without links; may not exist yet.
    output: PathBuf,
    output_file: Option<String>,
    earlier: Option<JobState>,
    /// See [`Held::mark`].
    mark: String,
    /// Who starts the job.
    started_by: Option<StartedBy>,
    /// Folders that were not there, innermost first.
    made: Vec<PathBuf>,
    lock: FolderLock,
}

/// A job directory that belongs to this process until the claim is dropped.
#[derive(Debug)]
pub struct Claim {
    state: JobState,
    state_file: PathBuf,
    output: PathBuf,
    /// What to take back if the job never begins; none if an earlier run was overwritten.
    before: Option<Before>,
    reserve: Option<Reserve>,
    /// Locks on the job directory and on an output folder elsewhere.
    locks: (FolderLock, Option<FolderLock>),
}

/// What a job directory was before it was claimed.
#[derive(Debug)]
enum Before {
    /// It held no job.
    Nothing {
        job_dir: JobDir,
        root: PathBuf,
        /// Folders that were not there, innermost first.
        made: Vec<PathBuf>,
    },
    /// It held an earlier run of the job, which was taken up.
    Run(Box<JobState>),
}

impl Claim {
    /// The id of this execution: unique, and sorted by time.
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// The output folder. It exists and can be written.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// When this execution began.
    pub fn started(&self) -> Timestamp {
        self.state.started
    }

    /// Whether the job was taken up from where an earlier run of it ended.
    pub fn has_earlier_run(&self) -> bool {
        self.state.taken_up > 0
    }

    /// Has the job's state on the disk under its name, which [`Held::begin`] leaves to others where there was none
    /// before. Comes before the journal is made.
    pub(super) fn sync(&self) -> Result<(), ClaimError> {
        match self.before {
            Some(Before::Nothing { .. }) => sync_name(&self.state_file),
            _ => Ok(()),
        }
    }

    /// Sets room aside for [`end`](Self::end) and for what is told of the job's end.
    pub(super) fn set_room_aside(&mut self, job_dir: &JobDir) {
        self.reserve = Reserve::new(&job_dir.reserve());
    }

    /// Notes how the job ended, if need be with some of the room that was set aside. A claim that is dropped
    /// without was interrupted.
    pub fn end(&mut self, result: &JobResult) -> Result<(), ClaimError> {
        let state = &mut self.state;
        state.status = result.status.into();
        state.ended = Some(Timestamp::now());
        state.result = Some(result.clone());
        if result.status == JobStatus::Completed {
            state.output_size = Some(output_size(&self.output, state.output_file.as_deref())?);
        }
        loop {
            let written = state.write(&self.state_file);
            let is_full = written.as_ref().is_err_and(ClaimError::is_full);
            if !is_full || !self.reserve.as_ref().is_some_and(Reserve::give_some) {
                return written;
            }
        }
    }

    /// Takes the claim back, for a job that never began: a directory that was new is as it was
    /// before, and a job that was taken up stands as before. One that an earlier job was removed
    /// from stays claimed.
    pub fn undo(&self) -> Result<(), ClaimError> {
        let (job_dir, root, made) = match &self.before {
            None => return Ok(()),
            Some(Before::Run(earlier)) => return earlier.write(&self.state_file),
            Some(Before::Nothing { job_dir, root, made }) => (job_dir, root, made),
        };
        clear(job_dir, root, &self.state, &self.output)?;
        remove_tree(&self.state_file).map_err(|e| ClaimError::io("remove", &self.state_file, e))?;
        self.locks.0.remove_file();
        self.locks.1.iter().for_each(FolderLock::remove_file);
        for folder in made {
            // What somebody else has put something into by now, stays.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Holds the directory for a job. Fails if it runs, or if the directory is not this job's.
///
/// Changes nothing, except that the directory is made where it is missing.
pub(super) fn hold(job_dir: &JobDir, wanted: Wanted<'_>) -> Result<Held, ClaimError> {
    let root = resolve(job_dir.root())?;
    let mut made = missing(&root);
    let lock = lock_job_dir(job_dir, &root)?;
    let earlier = earlier(job_dir, wanted.name)?;
    let output = match wanted.output {
        Some(path) => path.to_owned(),
        None => resolve(&job_dir.default_output())?,
    };
    refuse_misplaced(job_dir, &root, &output)?;
    if !output.starts_with(&root) {
        made.splice(0..0, missing(&output));
    }
    let mark = earlier.as_ref().map(|earlier| earlier.mark.clone());
    let mark = mark.filter(|mark| !mark.is_empty()).unwrap_or_else(new_mark);
    Ok(Held {
        job_dir: job_dir.clone(),
        root,
        name: wanted.name.to_owned(),
        output,
        output_file: wanted.output_file.map(str::to_owned),
        earlier,
        mark,
        started_by: None,
        made,
        lock,
    })
}

impl Held {
    /// The same, with what is noted of who starts the job.
    pub(super) fn started_by(self, started_by: StartedBy) -> Self {
        Self { started_by: Some(started_by), ..self }
    }

    /// The job that the directory holds.
    pub(super) fn earlier(&self) -> Option<&JobState> {
        self.earlier.as_ref()
    }

    /// Gives up the directory of a job that is refused: removes it if this process has made it.
    pub(super) fn give_up(self) {
        self.lock.remove_file();
        for folder in &self.made {
            // What another program has put something into by now, stays.
            let _ = fs::remove_dir(folder);
        }
    }

    /// The same for each run of the job in this directory, and for no other job: marks what it makes elsewhere.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Whether the job was last run by a version that marked nothing.
    pub(super) fn was_unmarked(&self) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| earlier.mark.is_empty())
    }

    /// The output folder that is wanted.
    pub(super) fn output(&self) -> &Path {
        &self.output
    }

    /// Where that job's results are.
    pub(super) fn earlier_output(&self) -> Option<PathBuf> {
        self.earlier.as_ref().map(|state| self.root.join(&state.output))
    }

    /// Why the results of a completed job are not what they were; none if they are.
    pub(super) fn output_changed(&self) -> Result<Option<String>, ClaimError> {
        let (Some(earlier), Some(output)) = (&self.earlier, self.earlier_output()) else {
            return Ok(None);
        };
        let was = earlier.output_size.filter(|_| output.is_dir());
        let Some(was) = was else {
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

    /// Begins the job; what an earlier run of it made is removed. Changes nothing if it fails,
    /// except that missing folders may have been made.
    pub(super) fn begin(self, job_file: Option<JobFile>) -> Result<Claim, ClaimError> {
        let output_lock = self.take_output_folder(true)?;
        self.make_private()?;
        let started = Timestamp::now();
        let state = JobState::new(&self.name, new_id(started), started);
        let state = self.placed(state, job_file);
        let state_file = self.job_dir.state_file();
        state.write_unnamed(&state_file)?;
        fail_point::pass("job-claimed");
        if let Some(earlier) = &self.earlier {
            // First the state, then the removal: an interruption leaves an unfinished job, not a
            // finished one without its results.
            sync_name(&state_file)?;
            clear(&self.job_dir, &self.root, earlier, &self.output)?;
            fail_point::pass("earlier-run-removed");
        }
        make_folder(&self.output)?;
        let Self { job_dir, root, output, made, lock, earlier, .. } = self;
        let before = earlier.is_none().then_some(Before::Nothing { job_dir, root, made });
        Ok(Claim { state, state_file, output, before, reserve: None, locks: (lock, output_lock) })
    }

    /// Takes the job up that the directory holds. The output folder must be the same; all that is in
    /// it is the job's own.
    pub(super) fn take_up(self, job_file: Option<JobFile>) -> Result<Claim, ClaimError> {
        let output_lock = self.take_output_folder(false)?;
        self.make_private()?;
        let started = Timestamp::now();
        let mut state = JobState::new(&self.name, new_id(started), started);
        if let Some(earlier) = &self.earlier {
            state.begun = earlier.begun;
            state.taken_up = earlier.taken_up.saturating_add(1);
        }
        let state = self.placed(state, job_file);
        let state_file = self.job_dir.state_file();
        make_folder(&self.output)?;
        state.write(&state_file)?;
        fail_point::pass("job-taken-up");
        let Self { output, lock, earlier, .. } = self;
        let before = earlier.map(|earlier| Before::Run(Box::new(earlier)));
        Ok(Claim { state, state_file, output, before, reserve: None, locks: (lock, output_lock) })
    }

    /// The state with what it says of places.
    fn placed(&self, state: JobState, job_file: Option<JobFile>) -> JobState {
        let below = self.output.strip_prefix(&self.root);
        let output = below.unwrap_or(&self.output).to_owned();
        let mark = self.mark.clone();
        let started_by = self.started_by.clone();
        let output_file = self.output_file.clone();
        JobState { mark, output, output_file, started_by, job_file, ..state }
    }

    /// Keeps other users out of the job directory: settings of the job, which may be secrets, are in its journal and
    /// its logs. The output folder in it stays as it is, for those who open the job directory to others.
    fn make_private(&self) -> Result<(), ClaimError> {
        let failed = |e| ClaimError::io("close to others", &self.root, e);
        self.lock.make_private().map_err(failed)?;
        let dir = &self.job_dir;
        let mode = || Permissions::from_mode(0o700);
        for folder in [dir.logs(), dir.parts(), dir.work(), dir.spill()] {
            if folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                // Best effort: the folder around it is closed.
                let _ = fs::set_permissions(folder, mode());
            }
        }
        Ok(())
    }

    /// Makes an output folder outside the job directory, or sees that the one that is there may be
    /// used; locks it. One for a job that begins must be empty but for the job's own old rows.
    fn take_output_folder(&self, must_be_empty: bool) -> Result<Option<FolderLock>, ClaimError> {
        let output = self.output.as_path();
        if output.starts_with(&self.root) {
            return Ok(None);
        }
        make_folder(output)?;
        // Rights alone do not tell whether files can be made: the file system may be read-only or full.
        let lock = FolderLock::take(output);
        let lock = lock.map_err(|e| ClaimError::folder("write to the output folder", output, e))?;
        let Some(lock) = lock else {
            return Err(ClaimError::OutputInUse(output.to_owned()));
        };
        let ours = self.earlier.as_ref().filter(|state| state.output == output);
        let old_file = ours.and_then(|state| state.output_file.as_deref());
        let is_ours = |entry: &OsStr, file: &str| entry == file || *entry == *unfinished(file);
        let other = first_entry(output, |entry| old_file.is_none_or(|file| !is_ours(entry, file)))?;
        if let Some(holds) = other.filter(|_| must_be_empty) {
            let output = output.to_owned();
            return Err(match ours {
                Some(_) => ClaimError::OutputHasMore { output, holds },
                None => ClaimError::OutputNotEmpty { output, holds },
            });
        }
        Ok(Some(lock))
    }
}

/// Makes the directory, for this user alone, where it is missing, and locks it.
fn lock_job_dir(job_dir: &JobDir, root: &Path) -> Result<FolderLock, ClaimError> {
    root.parent().map_or(Ok(()), make_folder)?;
    make(root, Mode::RWXU)?;
    let lock = FolderLock::take(root).map_err(|e| ClaimError::io("lock the folder", root, e))?;
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

/// The folder and those that lead to it, as far as they are not there; innermost first.
fn missing(folder: &Path) -> Vec<PathBuf> {
    let there = |path: &&Path| path.symlink_metadata().is_err() && !path.as_os_str().is_empty();
    folder.ancestors().take_while(there).map(Path::to_owned).collect()
}

/// Makes a folder at a path without links, and those above it, with the rights that the user's umask leaves.
fn make_folder(path: &Path) -> Result<(), ClaimError> {
    make(path, Mode::from_raw_mode(0o777))
}

fn make(path: &Path, mode: Mode) -> Result<(), ClaimError> {
    match folder_at_its_path(path, mode) {
        Err(_) if path.exists() && !path.is_dir() => Err(ClaimError::NotAFolder(path.to_owned())),
        made => {
            made.map(drop).map_err(|source| ClaimError::folder("make the folder", path, source))
        }
    }
}

/// The job that the directory holds. Fails if that is another one, or if the directory is no job's.
fn earlier(job_dir: &JobDir, name: &str) -> Result<Option<JobState>, ClaimError> {
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

/// The output folder may not be, or hold, the places of other things.
fn refuse_misplaced(job_dir: &JobDir, root: &Path, output: &Path) -> Result<(), ClaimError> {
    let folders = [job_dir.parts(), job_dir.work(), job_dir.links(), job_dir.spill()];
    let own = [job_dir.models(), job_dir.logs(), job_dir.journal()];
    let own = folders
        .iter()
        .chain(&own)
        .chain([&job_dir.state_file()])
        .filter_map(|path| path.file_name())
        .any(|name| {
            let place = root.join(name);
            output.starts_with(&place)
        });
    if own || root.starts_with(output) {
        return Err(ClaimError::Misplaced { output: output.to_owned(), dir: root.to_owned() });
    }
    Ok(())
}

/// Removes what the earlier run made: the layout of a job directory, and its output. First the
/// journal: without it nobody takes up what is half removed.
fn clear(
    job_dir: &JobDir,
    root: &Path,
    earlier: &JobState,
    output: &Path,
) -> Result<(), ClaimError> {
    let mut own = Vec::new();
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut path = OsString::from(job_dir.journal());
        path.push(suffix);
        own.push(PathBuf::from(path));
    }
    own.extend([job_dir.parts(), job_dir.work(), job_dir.models()]);
    own.extend([job_dir.links(), job_dir.spill(), job_dir.control_socket()]);
    own.extend([job_dir.default_output(), job_dir.logs()]);
    // Resolved again: what was a folder then may be a link now.
    let old_output = resolve(&root.join(&earlier.output))?;
    if old_output.starts_with(root) && refuse_misplaced(job_dir, root, &old_output).is_ok() {
        own.push(old_output);
    } else if let (true, Some(file)) = (earlier.output == output, &earlier.output_file) {
        let mut parts = Path::new(file).components();
        if let (Some(Component::Normal(file)), None) = (parts.next(), parts.next()) {
            own.push(output.join(file));
            own.push(output.join(unfinished(&file.to_string_lossy())));
        }
    }
    own.iter().try_for_each(|path| {
        remove_tree(path).map_err(|e| ClaimError::io("remove the earlier run's", path, e))
    })
}

/// The name of one entry that `counts`, if the folder has any beside its lock.
fn first_entry(
    folder: &Path,
    counts: impl Fn(&std::ffi::OsStr) -> bool,
) -> Result<Option<String>, ClaimError> {
    let failed = |e| ClaimError::io("list the folder", folder, e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != LOCK_FILE && counts(&name) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// The path without links, also where its last parts do not exist yet.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, ClaimError> {
    opening::resolve(path).map_err(|e| ClaimError::io("find", path, e))
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
