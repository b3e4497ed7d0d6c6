//! The folder of lock files: a slot for a worker, or a device, is taken while a process holds the lock of
//! its file.
//!
//! The kernel releases a lock when its holder ends, even if the holder is killed, so no slot is lost. One
//! more file, the gate, is locked while a process counts or takes slots. No process waits long for the gate.

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

/// The beginning of the folder's path if the user has no session folder. That folder is in memory,
/// so nothing remains after a reboot.
const SHARED_MEMORY_PREFIX: &str = "/dev/shm/sandmill-";
/// The folder in the user's home, whose parent folders may be missing.
const HOME_FOLDER: &str = ".local/state/sandmill/machine";
/// The variable that names the user's session folder.
const SESSION_VARIABLE: &str = "XDG_RUNTIME_DIR";
/// The variable that names the folder, if the operator's policy does not.
const FOLDER_VARIABLE: &str = "SANDMILL_MACHINE_DIRECTORY";
const GATE_FILE: &str = "gate";
/// The pause between two tries to lock the gate. Counting the slots takes far less.
const GATE_PAUSE: Duration = Duration::from_millis(1);

/// Why a job cannot count the machine's workers or GPUs. The text is for users, and names the setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SlotsError(pub(super) String);

/// The folder, to which only this user can write.
#[derive(Debug)]
pub(super) struct SlotsFolder(PathBuf);

impl SlotsFolder {
    /// Opens the folder. Creates it if it is missing.
    pub(super) fn open(caps: &MachineCaps) -> Result<Self, SlotsError> {
        let user = rustix::process::geteuid().as_raw();
        let given =
            || std::env::var_os(FOLDER_VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from);
        let Some(folder) = caps.directory.clone().or_else(given) else {
            return first_usable(&candidates(user, |name| std::env::var_os(name)), user).map(Self);
        };
        // Workers have other working directories.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        make(&folder, user)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Locks the gate until the returned file is dropped. `None` if that fails `tries` times.
    pub(super) fn gate(&self, tries: u32) -> io::Result<Option<File>> {
        let gate = self.file(GATE_FILE)?;
        for _ in 0..tries {
            if lock(&gate)? {
                return Ok(Some(gate));
            }
            std::thread::sleep(GATE_PAUSE);
        }
        Ok(None)
    }

    /// Opens a file in the folder. Creates the file if it is missing.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let path = self.0.join(name);
        options.open(&path).map_err(|error| with_path(&error, &path))
    }
}

pub(super) fn with_path(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Tries to lock the file. Returns whether it is locked now.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    try_lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Like [`lock`], with a lock that other processes can share.
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

/// The folders to try, best first. All jobs of a user must use the same folder, and no other user may prevent
/// that. Other users cannot write to the session folder and `/run`. All users can write to `/dev/shm`, so
/// another user may have taken the folder's name. The user's home is the last resort.
fn candidates(user: u32, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let session =
        absolute(SESSION_VARIABLE).into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    let mut folders: Vec<PathBuf> = session
        .filter(|folder| is_private(folder, user))
        .map(|folder| folder.join("sandmill"))
        .collect();
    if user == 0 {
        folders.push(PathBuf::from("/run/sandmill"));
    }
    folders.push(PathBuf::from(format!("{SHARED_MEMORY_PREFIX}{user}")));
    folders.extend(absolute("HOME").map(|home| home.join(HOME_FOLDER)));
    folders
}

/// Whether a folder belongs to this user, and other users have no rights to it.
fn is_private(folder: &Path, user: u32) -> bool {
    let found = folder.symlink_metadata();
    found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// The first of these folders that can be used. If there is none, the error of the last one.
fn first_usable(folders: &[PathBuf], user: u32) -> Result<PathBuf, SlotsError> {
    let mut refused =
        SlotsError("there is no folder in which to count workers and GPUs".to_owned());
    for folder in folders {
        if folder.ends_with(HOME_FOLDER) {
            // `make` below reports what went wrong.
            let _ = folder.parent().map(make_private);
        }
        match make(folder, user) {
            Ok(()) => return Ok(folder.clone()),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Creates the folder if it is missing, and checks that only this user can write to it.
fn make(folder: &Path, user: u32) -> Result<(), SlotsError> {
    let refused = |why: String| {
        SlotsError(format!(
            "the folder {}, in which jobs count the machine's workers and GPUs, {why}; name another \
             folder in machine.directory of the operator's policy, or in {FOLDER_VARIABLE}",
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
        return Err(refused(format!("can be written by other users (mode {mode:03o})")));
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
            candidates(user, |name| match name {
                SESSION_VARIABLE => Some(dir.path().into()),
                "HOME" => Some("/home/ada".into()),
                _ => None,
            })
        };
        let shared = PathBuf::from(format!("{SHARED_MEMORY_PREFIX}{}", user()));
        let mine = places(user());
        assert_eq!(mine[0], dir.path().join("sandmill"));
        assert!(mine.contains(&shared));
        assert_eq!(mine.last(), Some(&Path::new("/home/ada").join(HOME_FOLDER)));
        assert_ne!(places(user() + 1)[0], dir.path().join("sandmill"), "another user's");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert_ne!(places(user())[0], dir.path().join("sandmill"), "other users may read it");
    }

    /// Another user who uses a folder's name first cannot prevent a job from counting slots.
    #[test]
    fn unsuitable_folders_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        std::fs::write(place("taken"), "").unwrap();
        std::fs::create_dir(place("open")).unwrap();
        std::fs::set_permissions(place("open"), PermissionsExt::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink("elsewhere", place("link")).unwrap();
        let mut places = ["taken", "open", "link", HOME_FOLDER].map(place).to_vec();
        for _ in 0..2 {
            assert_eq!(first_usable(&places, user()).unwrap(), place(HOME_FOLDER));
        }
        places.pop();
        let error = first_usable(&places, user()).unwrap_err().to_string();
        assert!(error.contains("link") && error.contains("SANDMILL_MACHINE_DIRECTORY"), "{error}");
    }
}
