//! Makes an output file from the appended rows.

use super::disk::open_part;
use super::error::CommitError;
use super::target::Finish;
use std::fs::{self, OpenOptions};
use std::path::Path;

/// A file that is made from another one.
pub(super) struct FileInProgress<'a> {
    /// The file that rows were appended to.
    pub(super) appended: &'a Path,
    /// The path at which the file is made.
    pub(super) new: &'a Path,
    /// Its final path, for error messages.
    pub(super) path: &'a Path,
    /// Where the rows remain if this fails.
    pub(super) kept: &'a Path,
    /// The number of rows that the file must have.
    pub(super) rows: u64,
}

/// Makes and syncs the file. After an error, it does not exist.
pub(super) fn write(
    finish: &Finish,
    making: &FileInProgress<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), CommitError> {
    let &FileInProgress { appended, new, path, kept, rows } = making;
    let failed = |action, error| CommitError::disk(action, new, error);
    let target = OpenOptions::new().read(true).write(true).create_new(true).open(new);
    let target = target.map_err(|e| failed("make", e))?;
    // Open it read-only, with the position at its beginning.
    let source = open_part(appended).map_err(|e| CommitError::disk("open", appended, e.into()))?;
    if let Err(why) = (finish.make)(&source, &target, rows, on_progress) {
        // If it stays, the next start removes it.
        let _ = fs::remove_file(new);
        let path = path.to_owned();
        return Err(CommitError::Unmade { path, kept: kept.to_owned(), source: why });
    }
    target.sync_all().map_err(|e| failed("write to disk", e))
}
