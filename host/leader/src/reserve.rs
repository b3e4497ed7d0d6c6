//! Disk space that is reserved while a job runs, to record the job's end even on a full disk. The leader
//! frees some of the space for the job's state. The crate `report` frees the rest for the last lines in the
//! log tree.

use crate::opening::make_private;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The maximum size of the reserve in bytes. Reports rarely buffer more. On a small disk, the
/// reserve takes at most half of the free space.
const RESERVE_BYTES: u64 = 4 << 20;

/// How many bytes are freed at a time.
const STEP_BYTES: u64 = 64 << 10;

/// A file that occupies disk space until it is freed.
#[derive(Debug)]
pub(super) struct Reserve(PathBuf);

impl Reserve {
    /// `None` if the disk has no room, or the file system cannot reserve it. Neither is a reason to fail the
    /// job.
    pub(super) fn new(path: &Path) -> Option<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // An existing file was left by a killed run, and still occupies its space.
        let _ = std::fs::remove_file(path);
        make_private(path.parent()?).ok()?;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
        let reserve = Self(path.to_owned());
        let disk = rustix::fs::fstatvfs(&file).ok()?;
        let bytes = RESERVE_BYTES.min(disk.f_bavail.saturating_mul(disk.f_frsize) / 2);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).ok()?;
        Some(reserve)
    }

    /// Frees some of the space. Returns false if none is left.
    pub(super) fn free_some(&self) -> bool {
        let free = || {
            let file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(&self.0)?;
            let bytes = file.metadata()?.len();
            file.set_len(bytes.saturating_sub(STEP_BYTES))?;
            io::Result::Ok(bytes > 0)
        };
        free().unwrap_or(false)
    }
}

/// Frees all of the space.
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
    fn disk_space_is_reserved_and_freed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work/reserve");
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::write(&path, "of a run that was killed").unwrap();
        let reserve = Reserve::new(&path);
        // Some file systems cannot reserve space.
        if reserve.is_some() {
            assert!(path.metadata().unwrap().blocks() > 0);
        }
        if let Some(reserve) = &reserve {
            let parts = std::iter::repeat_with(|| reserve.free_some()).take_while(|given| *given);
            assert!(parts.take(100).count() as u64 <= RESERVE_BYTES / STEP_BYTES);
            assert_eq!(path.metadata().unwrap().blocks(), 0);
        }
        drop(reserve);
        assert!(!path.exists());
        drop(Reserve::new(&dir.path().join("new/reserve")));
        assert!(dir.path().join("new").is_dir());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(Reserve::new(&dir.path().join("file/reserve")).is_none());
    }
}
