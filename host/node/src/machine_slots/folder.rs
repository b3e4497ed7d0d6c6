//! A folder of files, each locked by the process that has what the file stands for.
//!
//! The kernel releases a lock when its holder ends, however it ends, so no place is lost. One more file, the
//! gate, is locked while a process counts; no process waits long for that lock.

use crate::model::MachineCaps;
use crate::opening::make_private;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder's prefix if the user has no session folder. It is in memory, so nothing remains after a reboot.
const SHARED: &str = "/dev/shm/sandmill-";
/// The folder in the user's home. Its parents may be missing.
const IN_HOME: &str = ".local/state/sandmill/machine";
/// The variable that names the user's session folder.
const SESSION: &str = "XDG_RUNTIME_DIR";
/// The variable that names another folder, if the policy does not.
const VARIABLE: &str = "SANDMILL_MACHINE_DIRECTORY";
const GATE: &str = "gate";
/// The pause between two tries to lock the gate. Counting takes far less.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a job cannot take part. For people; names the setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TurnsError(pub(super) String);

/// The folder, which only this user can write.
#[derive(Debug)]
pub(super) struct SlotsFolder(PathBuf);

impl SlotsFolder {
    /// Opens the folder, and makes it if it is missing.
    pub(super) fn open(caps: &MachineCaps) -> Result<Self, TurnsError> {
        let user = rustix::process::geteuid().as_raw();
        let given =
            || std::env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from);
        let Some(folder) = caps.directory.clone().or_else(given) else {
            return first(&usual(user, |name| std::env::var_os(name)), user).map(Self);
        };
        // Workers have other working directories.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        make(&folder, user)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Locks the gate, until the file is dropped. `None` if that fails `tries` times.
    pub(super) fn gate(&self, tries: u32) -> io::Result<Option<File>> {
        let gate = self.file(GATE)?;
        for _ in 0..tries {
            if lock(&gate)? {
                return Ok(Some(gate));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// Opens a file in the folder, and makes it if it is missing.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let path = self.0.join(name);
        options.open(&path).map_err(|error| at(&error, &path))
    }
}

/// Adds the path to an error.
pub(super) fn at(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Tries to lock the file. Returns whether it is locked now.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    try_lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Like [`lock`], with a lock that others can share.
pub(super) fn share(file: &File) -> io::Result<bool> {
    try_lock(file, FlockOperation::NonBlockingLockShared)
}

fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The candidate folders, best first. All jobs of a user must use the same folder, and no other user may
/// prevent that. A session folder and `/run` are closed to others. `/dev/shm` is open, so another user may
/// have taken the name there. The user's home is the last resort.
fn usual(user: u32, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let session = set(SESSION).into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    let mut places: Vec<PathBuf> = session
        .filter(|folder| is_private(folder, user))
        .map(|folder| folder.join("sandmill"))
        .collect();
    if user == 0 {
        places.push(PathBuf::from("/run/sandmill"));
    }
    places.push(PathBuf::from(format!("{SHARED}{user}")));
    places.extend(set("HOME").map(|home| home.join(IN_HOME)));
    places
}

/// Whether a folder belongs to this user, and other users have no rights to it.
fn is_private(folder: &Path, user: u32) -> bool {
    let found = folder.symlink_metadata();
    found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// The first of these folders that can be used. If there is none, the error of the last one.
fn first(places: &[PathBuf], user: u32) -> Result<PathBuf, TurnsError> {
    let mut refused = TurnsError("there is no place to count workers and GPUs".to_owned());
    for place in places {
        if place.ends_with(IN_HOME) {
            // `make` below reports what went wrong.
            let _ = place.parent().map(make_private);
        }
        match make(place, user) {
            Ok(()) => return Ok(place.clone()),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Makes the folder, and checks that only this user can write it.
fn make(folder: &Path, user: u32) -> Result<(), TurnsError> {
    let refused = |why: String| {
        TurnsError(format!(
            "the folder {} where jobs keep count of the machine's workers and GPUs {why}; name \
             another in machine.directory of the operator's policy, or in {VARIABLE}",
            folder.display()
        ))
    };
    let failed = |error: io::Error| refused(format!("cannot be used: {error}"));
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let metadata = folder.symlink_metadata().map_err(failed)?;
    if !metadata.is_dir() {
        return Err(refused("is not a folder".to_owned()));
    }
    if metadata.uid() != user {
        return Err(refused(format!("belongs to user {}, not to user {user}", metadata.uid())));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(refused(format!("can be written by others (mode {mode:03o})")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_private_session_folder_is_preferred() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let places = |user| {
            usual(user, |name| match name {
                SESSION => Some(dir.path().into()),
                "HOME" => Some("/home/ada".into()),
                _ => None,
            })
        };
        let shared = PathBuf::from(format!("{SHARED}{}", user()));
        let mine = places(user());
        assert_eq!(mine[0], dir.path().join("sandmill"));
        assert!(mine.contains(&shared));
        assert_eq!(mine.last(), Some(&Path::new("/home/ada").join(IN_HOME)));
        assert_ne!(places(user() + 1)[0], dir.path().join("sandmill"), "another user's");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert_ne!(places(user())[0], dir.path().join("sandmill"), "others may look into it");
    }

    /// Another user who takes a name first cannot stop a job from counting.
    #[test]
    fn unsuitable_folders_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        std::fs::write(place("taken"), "").unwrap();
        std::fs::create_dir(place("open")).unwrap();
        std::fs::set_permissions(place("open"), PermissionsExt::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink("elsewhere", place("link")).unwrap();
        let mut places = ["taken", "open", "link", IN_HOME].map(place).to_vec();
        for _ in 0..2 {
            assert_eq!(first(&places, user()).unwrap(), place(IN_HOME));
        }
        places.pop();
        let error = first(&places, user()).unwrap_err().to_string();
        assert!(error.contains("link") && error.contains("SANDMILL_MACHINE_DIRECTORY"), "{error}");
    }
}
