//! The file of one object on this machine: the object, its stand-in, or a mark that says why it could not be fetched.

use crate::dataset::{Found, STAND_IN_MODE, UNFETCHED};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a reason, which a link must hold.
pub(super) const REASON: usize = 1000;

/// Where one object goes.
pub(super) struct Target {
    /// Its final name, which it gets when all of it is there.
    pub(super) file: PathBuf,
    /// Where it lies until then.
    pub(super) part: PathBuf,
    /// The most bytes that it may have.
    pub(super) most: u64,
}

/// The time that the file of an object has.
pub(super) fn modified(known: &Found) -> SystemTime {
    UNIX_EPOCH + Duration::new(known.seconds.max(0).cast_unsigned(), known.nanos)
}

/// Puts a stand-in at the place of a file, by way of `part`.
pub(super) fn stand_in(known: Found, part: &Path, file: &Path) -> std::io::Result<()> {
    make(known, part)?;
    put(part, file)
}

/// Makes a stand-in where nothing is.
pub(super) fn make(known: Found, path: &Path) -> std::io::Result<()> {
    let made = File::options().write(true).create_new(true).mode(STAND_IN_MODE).open(path)?;
    made.set_len(known.length)?;
    made.set_modified(modified(&known))
}

/// Gives a file its final name, whatever stands there.
pub(super) fn put(part: &Path, file: &Path) -> std::io::Result<()> {
    make_folder(file)?;
    match fs::rename(part, file) {
        // What was a folder in an earlier job is an object now: nothing that is wanted lies below.
        Err(_) if file.symlink_metadata().is_ok_and(|there| there.is_dir()) => {
            fs::remove_dir_all(file)?;
            fs::rename(part, file)
        }
        done => done,
    }
}

/// Makes the folder of a file.
pub(super) fn make_folder(file: &Path) -> std::io::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    match fs::create_dir_all(folder) {
        Err(error)
            if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::AlreadyExists) =>
        {
            // What was an object in an earlier job is a folder now.
            let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
            there.map_or(Ok(()), fs::remove_file)?;
            fs::create_dir_all(folder)
        }
        made => made,
    }
}

/// Leaves a mark in place of an object that could not be fetched: the planner makes a failed item of it.
pub(super) fn mark(target: &Target, reason: &str) -> std::io::Result<()> {
    let reason = reason.replace('\0', " ");
    let _ = fs::remove_file(&target.part);
    let text = format!("{UNFETCHED}{}", &reason[..reason.floor_char_boundary(REASON)]);
    std::os::unix::fs::symlink(text, &target.part)?;
    put(&target.part, &target.file)
}
