//! Room on the disk that is set aside while a job runs: where the disk is full, that is what the job's end is
//! written with, its last lines in the log tree and how it stands.

use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::path::{Path, PathBuf};

/// Bytes, at most; of a small disk no more than half of what is free. What reports hold back is seldom more.
const BYTES: u64 = 4 << 20;

/// A file that takes up room until it is given back.
#[derive(Debug)]
pub(super) struct Reserve(PathBuf);

impl Reserve {
    /// None where there is no such room, or where the file system cannot set it aside: nothing of it is worth a
    /// job.
    pub(super) fn new(path: &Path) -> Option<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // One that is there was left by a run that was killed, and so is its room.
        let _ = std::fs::remove_file(path);
        std::fs::create_dir_all(path.parent()?).ok()?;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
        let reserve = Self(path.to_owned());
        let disk = rustix::fs::fstatvfs(&file).ok()?;
        let bytes = BYTES.min(disk.f_bavail.saturating_mul(disk.f_frsize) / 2);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).ok()?;
        Some(reserve)
    }
}

/// Gives the room back.
impl Drop for Reserve {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn room_is_taken_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work/reserve");
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::write(&path, "of a run that was killed").unwrap();
        let reserve = Reserve::new(&path);
        // Some file systems cannot.
        if reserve.is_some() {
            assert!(path.metadata().unwrap().blocks() > 0);
        }
        drop(reserve);
        assert!(!path.exists());
        drop(Reserve::new(&dir.path().join("new/reserve")));
        assert!(dir.path().join("new").is_dir());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(Reserve::new(&dir.path().join("file/reserve")).is_none());
    }
}
