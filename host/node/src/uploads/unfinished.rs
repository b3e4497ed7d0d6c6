//! A copy of a file in a job store that is a folder, until it is complete.

use super::hashing::HashedFile;
use crate::model::{hex, random_name};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An incomplete copy. Its file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct UnfinishedFile {
    /// It is locked, so that no other upload takes it for one that was killed.
    pub(super) content: File,
    path: PathBuf,
}

impl UnfinishedFile {
    /// Creates a copy in a folder. `what` is the same each time for the same content, so that this replaces the copy that an
    /// upload left when it was killed.
    pub(super) fn create(folder: &Path, what: &str) -> io::Result<Self> {
        let path = folder.join(hex(Sha256::digest(what)));
        remove_left(&path);
        match Self::create_at(path) {
            Ok(Some(created)) => Ok(created),
            // Another upload of the same file is under way, or the file system has no locks.
            Ok(None) => Self::create_alone(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::create_alone(folder),
            Err(error) => Err(error),
        }
    }

    /// `None` if another upload has taken the new file for one that was left.
    fn create_at(path: PathBuf) -> io::Result<Option<Self>> {
        let content = create_new(&path)?;
        if is_locked_at(&content, &path) {
            return Ok(Some(Self { content, path }));
        }
        Ok(None)
    }

    /// Creates a copy that no other upload knows.
    fn create_alone(folder: &Path) -> io::Result<Self> {
        let path = folder.join(random_name());
        Ok(Self { content: create_new(&path)?, path })
    }

    /// Whether a file has been copied: its copy got its name when it was complete.
    pub(super) fn is_complete(to: &Path, file: &HashedFile) -> bool {
        let found = to.symlink_metadata();
        found.is_ok_and(|found| found.is_file() && found.len() == file.length)
    }

    /// Gives the complete copy its name, unless another upload of the same file has done so meanwhile: a job may read that
    /// copy already.
    pub(super) fn finish(&self, to: &Path, file: &HashedFile) -> io::Result<()> {
        self.content.sync_all()?;
        if !is_at(&self.content, &self.path) && !Self::is_complete(to, file) {
            return Err(io::Error::other("another process has removed the copy meanwhile"));
        }
        loop {
            match name(&self.path, to) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if Self::is_complete(to, file) {
                        return Ok(());
                    }
                    fs::remove_file(to)?;
                }
                named => return named,
            }
        }
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // There is none, if it got its name.
        if is_at(&self.content, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives a file a name that is not taken.
fn name(path: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, path, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems, such as NFS, cannot do this.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link(path, to),
        named => Ok(named?),
    }
}

/// As [`name`], with a second name at first. The caller removes the first one.
fn link(path: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::link(path, to) {
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
            match to.symlink_metadata() {
                Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(path, to),
            }
        }
        linked => Ok(linked?),
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes the copy that a killed upload has left.
fn remove_left(path: &Path) {
    if let Ok(left) = File::options().write(true).open(path)
        && is_locked_at(&left, path)
    {
        // If it cannot be removed, the new copy gets another name.
        let _ = fs::remove_file(path);
    }
}

/// Locks a file. Returns whether that was possible, and the file still has this path.
fn is_locked_at(file: &File, path: &Path) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(file, path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let own = file.metadata().map(place).ok();
    own.is_some() && path.symlink_metadata().map(place).ok() == own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(length: u64) -> HashedFile {
        HashedFile { name: "x".to_owned(), path: PathBuf::new(), length, sha256: [0; 32] }
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_second_try_replaces_what_a_killed_one_left() {
        let dir = tempfile::tempdir().unwrap();
        let mut killed = UnfinishedFile::create(dir.path(), "x").unwrap();
        killed.content.write_all(b"half").unwrap();
        // While it lives, another one gets another name.
        let other = UnfinishedFile::create(dir.path(), "x").unwrap();
        assert_ne!(other.path, killed.path);
        drop(other);
        let path = killed.path.clone();
        fs::hard_link(&path, dir.path().join("kept")).unwrap();
        drop(killed);
        fs::rename(dir.path().join("kept"), &path).unwrap();
        let again = UnfinishedFile::create(dir.path(), "x").unwrap();
        assert_eq!(again.path, path);
        assert_eq!(again.content.metadata().unwrap().len(), 0);
        assert_eq!(names(dir.path()), 1);
        drop(again);
        assert_eq!(names(dir.path()), 0);
    }

    /// With each way to give a file its name.
    #[test]
    fn a_complete_file_of_another_upload_stays() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("to");
        for name in [name, link] {
            fs::write(&to, "other").unwrap();
            let from = dir.path().join("from");
            fs::write(&from, "own").unwrap();
            let error = name(&from, &to).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&to).unwrap(), "other");
            fs::remove_file(&to).unwrap();
            name(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), "own");
        }
        for (there, then) in [("123", "123"), ("1", "own"), ("12345", "own")] {
            fs::write(&to, there).unwrap();
            let mut copy = UnfinishedFile::create(dir.path(), "x").unwrap();
            copy.content.write_all(b"own").unwrap();
            copy.finish(&to, &file(3)).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), then);
        }
    }
}
