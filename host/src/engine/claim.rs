//! The one rule for a job directory that is there already, and for the output folder.
//!
//! Nothing there: it is made. The same job, finished or not: touched only with `overwrite`, which
//! removes what the job itself made and follows no links. Running, another job's, or anybody
//! else's folder: refused, whatever is asked.

use super::claim_error::ClaimError;
use crate::model::{JobDir, JobStatus};
use crate::output::remove_tree;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

/// The format of `job.json` that this build writes and reads.
const VERSION: u32 = 1;

/// A job directory that belongs to this process until the claim is dropped.
#[derive(Debug)]
pub struct Claim {
    state: State,
    state_file: PathBuf,
    /// What to take back if the job never begins; none if an earlier job was overwritten.
    fresh: Option<Fresh>,
    /// Locks on the job directory and on an output folder elsewhere.
    _locks: (File, Option<File>),
}

/// A job directory that held no job before.
#[derive(Debug)]
struct Fresh {
    job_dir: JobDir,
    root: PathBuf,
    /// Folders that were not there, innermost first.
    made: Vec<PathBuf>,
}

/// What `job.json` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    version: u32,
    name: String,
    id: String,
    status: Status,
    output: PathBuf,
    output_file: Option<String>,
    pid: u32,
    started: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl Claim {
    /// The id of this execution: unique, and sorted by time.
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// The output folder. It exists and can be written.
    pub fn output(&self) -> &Path {
        &self.state.output
    }

    /// When the job began.
    pub fn started(&self) -> Timestamp {
        self.state.started
    }

    /// Notes how the job ended. A claim that is dropped without was interrupted.
    pub fn set_status(&mut self, status: JobStatus) -> Result<(), ClaimError> {
        self.state.status = match status {
            JobStatus::Completed => Status::Completed,
            JobStatus::Failed => Status::Failed,
            JobStatus::Cancelled => Status::Cancelled,
        };
        write_state(&self.state_file, &self.state)
    }

    /// Takes the claim back, for a job that never began: a directory that was new is as it was
    /// before. One that an earlier job was removed from stays claimed.
    pub fn undo(&self) -> Result<(), ClaimError> {
        let Some(fresh) = &self.fresh else { return Ok(()) };
        clear(&fresh.job_dir, &fresh.root, &self.state, &self.state.output)?;
        remove_tree(&self.state_file).map_err(|e| ClaimError::io("remove", &self.state_file, e))?;
        for folder in &fresh.made {
            // What somebody else has put something into by now, stays.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Claims the directory for the job `name`, by the rule of this module.
///
/// `output` is the output folder where it is not the job directory's own, `output_file` the file
/// in it that rows will be appended to. Changes nothing if it fails, except that missing folders
/// may have been made.
pub fn claim(
    job_dir: &JobDir,
    name: &str,
    output: Option<&Path>,
    output_file: Option<&str>,
    overwrite: bool,
) -> Result<Claim, ClaimError> {
    let mut made = missing(job_dir.root());
    let lock = lock_job_dir(job_dir)?;
    let root = resolve(job_dir.root())?;
    let previous = previous(job_dir, name, overwrite)?;
    let output = match output {
        Some(path) => resolve(path)?,
        None => resolve(&job_dir.default_output())?,
    };
    refuse_misplaced(job_dir, &root, &output)?;
    let inside = output.starts_with(&root);
    if !inside {
        made.splice(0..0, missing(&output));
    }
    let output_lock =
        if inside { None } else { Some(take_output_folder(&output, previous.as_ref())?) };
    let started = Timestamp::now();
    let state = State {
        version: VERSION,
        name: name.to_owned(),
        id: new_id(started),
        status: Status::Running,
        output,
        output_file: output_file.map(str::to_owned),
        pid: std::process::id(),
        started,
    };
    let state_file = job_dir.state_file();
    // First the state, then the removal: an interruption leaves an unfinished job, not a finished
    // one without its results.
    write_state(&state_file, &state)?;
    if let Some(previous) = &previous {
        clear(job_dir, &root, previous, &state.output)?;
    }
    make_folder(&state.output)?;
    let fresh = previous.is_none().then(|| Fresh { job_dir: job_dir.clone(), root, made });
    Ok(Claim { state, state_file, fresh, _locks: (lock, output_lock) })
}

/// Makes the directory where it is missing, and locks it.
fn lock_job_dir(job_dir: &JobDir) -> Result<File, ClaimError> {
    let root = job_dir.root();
    make_folder(root)?;
    if let Some(lock) = lock_folder(root)? {
        return Ok(lock);
    }
    let running = read_state(&job_dir.state_file()).ok().flatten();
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

fn make_folder(path: &Path) -> Result<(), ClaimError> {
    match fs::create_dir_all(path) {
        Err(_) if path.exists() && !path.is_dir() => Err(ClaimError::NotAFolder(path.to_owned())),
        result => result.map_err(|source| ClaimError::folder("make the folder", path, source)),
    }
}

/// Opens and locks a folder; `None` if another process has the lock.
fn lock_folder(path: &Path) -> Result<Option<File>, ClaimError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |e: rustix::io::Errno| ClaimError::io("lock the folder", path, e.into());
    let folder = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?);
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(folder)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(failed(e)),
    }
}

/// The job that the directory holds, if it may be run over.
fn previous(job_dir: &JobDir, name: &str, overwrite: bool) -> Result<Option<State>, ClaimError> {
    let dir = || job_dir.root().to_owned();
    let Some(state) = read_state(&job_dir.state_file())? else {
        let leftover = temporary(&job_dir.state_file());
        return match first_entry(job_dir.root(), |entry| Some(entry) != leftover.file_name())? {
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
    let name = state.name.clone();
    match state.status {
        _ if overwrite => Ok(Some(state)),
        Status::Completed => Err(ClaimError::Finished { dir: dir(), name }),
        Status::Running => Err(ClaimError::Unfinished { dir: dir(), name, how: "was interrupted" }),
        Status::Failed => Err(ClaimError::Unfinished { dir: dir(), name, how: "failed" }),
        Status::Cancelled => Err(ClaimError::Unfinished { dir: dir(), name, how: "was cancelled" }),
    }
}

/// The output folder may not be, or hold, the places of other things.
fn refuse_misplaced(job_dir: &JobDir, root: &Path, output: &Path) -> Result<(), ClaimError> {
    let own = [job_dir.parts(), job_dir.work(), job_dir.logs(), job_dir.journal()];
    let own =
        own.iter().chain([&job_dir.state_file()]).filter_map(|path| path.file_name()).any(|name| {
            let place = root.join(name);
            output.starts_with(&place)
        });
    if own || root.starts_with(output) {
        return Err(ClaimError::Misplaced { output: output.to_owned(), dir: root.to_owned() });
    }
    Ok(())
}

/// Makes an output folder outside the job directory, or sees that the one that is there may be
/// used; locks it.
fn take_output_folder(output: &Path, previous: Option<&State>) -> Result<File, ClaimError> {
    make_folder(output)?;
    let Some(lock) = lock_folder(output)? else {
        return Err(ClaimError::OutputInUse(output.to_owned()));
    };
    let ours = previous.filter(|state| state.output == output);
    let old_file = ours.and_then(|state| state.output_file.as_deref());
    let other = first_entry(output, |entry| old_file.is_none_or(|file| entry != file))?;
    if let Some(holds) = other {
        let output = output.to_owned();
        return Err(match ours {
            Some(_) => ClaimError::OutputHasMore { output, holds },
            None => ClaimError::OutputNotEmpty { output, holds },
        });
    }
    // Rights alone do not tell: the file system may be read-only or full.
    let probe = output.join(format!(".sandmill-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&probe);
    written.map_err(|e| ClaimError::folder("write to the output folder", output, e))?;
    fs::remove_file(&probe).map_err(|e| ClaimError::io("remove", &probe, e))?;
    Ok(lock)
}

/// Removes what the earlier run made: the layout of a job directory, and its output.
fn clear(job_dir: &JobDir, root: &Path, previous: &State, output: &Path) -> Result<(), ClaimError> {
    let mut own = vec![job_dir.parts(), job_dir.work(), job_dir.default_output(), job_dir.logs()];
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut path = OsString::from(job_dir.journal());
        path.push(suffix);
        own.push(path.into());
    }
    // Resolved again: what was a folder then may be a link now.
    let old_output = resolve(&previous.output)?;
    if old_output.starts_with(root) && refuse_misplaced(job_dir, root, &old_output).is_ok() {
        own.push(old_output);
    } else if let (true, Some(file)) = (previous.output == output, &previous.output_file) {
        let mut parts = Path::new(file).components();
        if let (Some(Component::Normal(file)), None) = (parts.next(), parts.next()) {
            own.push(output.join(file));
        }
    }
    own.iter().try_for_each(|path| {
        remove_tree(path).map_err(|e| ClaimError::io("remove the earlier run's", path, e))
    })
}

/// The name of one entry that `counts`, if the folder has any.
fn first_entry(
    folder: &Path,
    counts: impl Fn(&std::ffi::OsStr) -> bool,
) -> Result<Option<String>, ClaimError> {
    let failed = |e| ClaimError::io("list the folder", folder, e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if counts(&name) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// The path without links, also where its last parts do not exist yet.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, ClaimError> {
    let failed = |e| ClaimError::io("find", path, e);
    let absolute = std::path::absolute(path).map_err(failed)?;
    let mut missing = Vec::new();
    let mut there = absolute.as_path();
    loop {
        match there.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(missing.iter().rev());
                return Ok(resolved);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // `..` below a folder that is missing has no name.
                let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else {
                    return Err(failed(e));
                };
                missing.push(name.to_owned());
                there = parent;
            }
            Err(e) => return Err(failed(e)),
        }
    }
}

fn read_state(path: &Path) -> Result<Option<State>, ClaimError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(ClaimError::io("read", path, e)),
    };
    let unknown = |what: String| ClaimError::UnknownState { path: path.to_owned(), what };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| unknown(e.to_string()))?;
    // The version first: another one may have other fields.
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(unknown(format!("its version is {version}, this program knows {VERSION}")));
        }
        None => return Err(unknown("it has no version".into())),
    }
    serde_json::from_value(value).map(Some).map_err(|e| unknown(e.to_string()))
}

/// Replaces the file as a whole, so that nobody ever reads half of it.
fn write_state(path: &Path, state: &State) -> Result<(), ClaimError> {
    let temporary = temporary(path);
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        serde_json::to_writer_pretty(&mut file, state)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The new name is on the disk, too.
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|e| ClaimError::io("write", path, e))
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("json.new")
}

fn new_id(now: Timestamp) -> String {
    // The standard library's hasher is seeded at random.
    let random = RandomState::new().hash_one((std::process::id(), now.as_nanosecond()));
    format!("{}-{:08x}", now.strftime("%Y%m%dT%H%M%SZ"), random & 0xffff_ffff)
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
