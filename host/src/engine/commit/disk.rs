//! What the committer asks of the disk, and how it says that the disk refused.

use crate::model::{Failure, os_error};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;

/// Why an attempt is not committed.
pub(super) enum Refusal {
    /// It is the attempt's fault.
    Reject(Failure),
    /// Its files clash with those of the same group.
    Postpone,
    /// It is the machine's fault.
    Fatal(String),
}

/// Opens what a worker made, without following a link or waiting for a pipe's other end.
pub(super) fn open_part(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Waits until all that was written to the file system of a folder is on the disk.
pub(super) fn sync_around(folder: &Path) -> Result<(), String> {
    File::open(folder)
        .and_then(|opened| Ok(rustix::fs::syncfs(opened)?))
        .map_err(|e| machine("write to disk", folder, &e))
}

/// Waits until the names in a folder are on the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), String> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|e| machine("write to disk", folder, &e))
}

pub(super) fn fatal(action: &str, path: &Path, error: &io::Error) -> Refusal {
    Refusal::Fatal(machine(action, path, error))
}

/// The text for an error of the operating system.
pub(super) fn machine(action: &str, path: &Path, error: &io::Error) -> String {
    let (path, told) = (path.display(), os_error(error));
    let next = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "then take the job up again",
        _ => "check the disk, then run the job again",
    };
    format!("cannot {action} {path}: {told}; {next}")
}
