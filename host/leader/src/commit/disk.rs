//! What the committer asks of the disk.

use super::error::{CommitError, Rejection};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Why an attempt is not committed.
pub(super) enum Refusal {
    /// It is the attempt's fault.
    Reject(Rejection),
    /// Its files clash with those of the same group.
    Postpone,
    /// It is the machine's fault.
    Fatal(CommitError),
}

/// Opens what a worker made, without following a link or waiting for a pipe's other end.
pub(super) fn open_part(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Waits until all that was written to the file system of a folder is on the disk.
pub(super) fn sync_around(folder: &Path) -> Result<(), CommitError> {
    File::open(folder)
        .and_then(|opened| Ok(rustix::fs::syncfs(opened)?))
        .map_err(|e| CommitError::disk("write to disk", folder, e))
}

/// Waits until the names in a folder are on the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), CommitError> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|e| CommitError::disk("write to disk", folder, e))
}

/// Whether a file begins with these bytes.
pub(super) fn begins_with(file: &File, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, 0).is_ok() && found == bytes
}
