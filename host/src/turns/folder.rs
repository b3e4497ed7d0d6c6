//! A folder of files that are locked by whoever has what they stand for.
//!
//! The kernel lets go of a lock when its holder is gone, however it ended, so that nothing is lost. A
//! file of its own, the gate, is locked while somebody counts; nobody waits for that lock for long.

use crate::model::MachineCaps;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where it is unless the policy names another. In memory: nothing of it outlives the machine.
const USUAL: &str = "/dev/shm/sandmill-";
/// Names another, where the policy does not.
const VARIABLE: &str = "SANDMILL_MACHINE_DIRECTORY";
const GATE: &str = "gate";
/// The pause between two tries to get through the gate. Counting takes far less.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a job cannot take part. For people: names the setting.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TurnsError(pub(super) String);

/// The folder, which belongs to this user alone.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Opens it, and makes it if need be.
    pub(super) fn open(caps: &MachineCaps) -> Result<Self, TurnsError> {
        let user = rustix::process::geteuid().as_raw();
        let given =
            || std::env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from);
        let folder = caps.directory.clone().or_else(given);
        let folder = folder.unwrap_or_else(|| PathBuf::from(format!("{USUAL}{user}")));
        // Workers have other working folders.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        make(&folder, user)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The gate, if it opens within so many tries. Locked until it is dropped.
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

    /// A file in it, made if it is not there.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let path = self.0.join(name);
        options.open(&path).map_err(|error| at(&error, &path))
    }
}

/// An error that says where.
pub(super) fn at(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Whether the lock was to be had.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    try_lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// The same for a lock that others may have beside this one.
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

/// Makes the folder, and sees that it belongs to this user alone.
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
        return Err(refused("is no folder".to_owned()));
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
