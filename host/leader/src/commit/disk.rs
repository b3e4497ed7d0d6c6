//! Disk operations of the committer.

use super::error::{CommitError, Rejection};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Why an attempt is not committed.
pub(super) enum CommitRefusal {
    /// The attempt is at fault.
    Reject(Rejection),
    /// The group already has a name of the attempt's files, or has no room for their names.
    Postpone,
    /// The computer is at fault, for example its disk.
    Fatal(CommitError),
}

/// Opens a file that a worker made. Does not follow a link, and does not wait if the file is a pipe.
pub(super) fn open_part(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

pub(super) fn sync_file_system_of(folder: &Path) -> Result<(), CommitError> {
    File::open(folder)
        .and_then(|opened| Ok(rustix::fs::syncfs(opened)?))
        .map_err(|e| CommitError::disk("write to disk", folder, e))
}

/// Syncs a folder, so that the names in it are durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), CommitError> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|e| CommitError::disk("write to disk", folder, e))
}

pub(super) fn begins_with(file: &File, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, 0).is_ok() && found == bytes
}
