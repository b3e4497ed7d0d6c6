//! Folders on this machine for the files of workers, for jobs whose store is at an address. A folder is removed when the
//! part in the job ends, or later, if its agent was killed.

use crate::files::remove_tree;
use crate::model::{JobDir, random_name};
use crate::opening::make_private;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The end of the name of a folder's lock.
const LOCK: &str = ".lock";

/// A folder that only this process uses. Dropping it removes the folder.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    lock: PathBuf,
    /// Locked.
    _file: File,
}

impl Scratch {
    /// Makes an empty folder in `root`, and removes the folders there that processes have left which were killed.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        make_private(root)?;
        let root = root.canonicalize()?;
        remove_abandoned(&root);
        loop {
            let path = root.join(random_name());
            let lock = lock_of(&path);
            // The lock comes first: a folder without a lock would look abandoned.
            let file = File::options().write(true).create_new(true).mode(0o600).open(&lock)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if lock.exists() => {}
                // Another process has taken it for an abandoned one.
                _ => continue,
            }
            make_private(&path)?;
            return Ok(Self { path, lock, _file: file });
        }
    }

    /// The folder, with the layout of a job directory.
    pub(super) fn dir(&self) -> JobDir {
        JobDir::new(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next agent removes what stays.
        if remove_tree(&self.path).is_ok() {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

fn lock_of(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(LOCK);
    PathBuf::from(name)
}

/// Removes the folders whose processes have ended. What cannot be removed stays. Returns whether something was removed.
pub(super) fn remove_abandoned(root: &Path) -> bool {
    let mut has_removed = false;
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let lock = entry.path();
        let Some(name) = lock.to_str().and_then(|path| path.strip_suffix(LOCK)) else { continue };
        let Ok(file) = File::options().write(true).open(&lock) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let removed = match remove_tree(Path::new(name)) {
            Err(error) => error.kind() == ErrorKind::NotFound,
            Ok(()) => true,
        };
        has_removed |= removed;
        if removed {
            let _ = fs::remove_file(&lock);
        }
    }
    has_removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_folders_are_removed_and_used_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        let first = Scratch::new(&root).unwrap();
        fs::write(first.dir().root().join("a"), "x").unwrap();
        // As if its process had been killed.
        let abandoned = root.join("abandoned");
        fs::create_dir_all(abandoned.join("b")).unwrap();
        fs::write(lock_of(&abandoned), "").unwrap();
        let second = Scratch::new(&root).unwrap();
        assert!(!abandoned.exists() && !lock_of(&abandoned).exists());
        assert!(first.dir().root().join("a").exists());
        drop((first, second));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }
}
