//! Making an output file of what was appended.

use super::disk::open_part;
use super::error::CommitError;
use super::target::Finish;
use std::fs::{self, OpenOptions};
use std::path::Path;

/// A file that is made of another one.
pub(super) struct Making<'a> {
    /// What rows were appended to.
    pub(super) appended: &'a Path,
    /// Where it is made.
    pub(super) new: &'a Path,
    /// What it will be called.
    pub(super) path: &'a Path,
    /// Where the rows are, whatever becomes of it.
    pub(super) kept: &'a Path,
    /// Rows that there must be.
    pub(super) rows: u64,
}

/// Makes the file. It is on the disk then; after an error it is not there.
pub(super) fn write(
    finish: &Finish,
    making: &Making<'_>,
    told: &mut dyn FnMut(u64),
) -> Result<(), CommitError> {
    let &Making { appended, new, path, kept, rows } = making;
    let failed = |action, error| CommitError::disk(action, new, error);
    let target = OpenOptions::new().read(true).write(true).create_new(true).open(new);
    let target = target.map_err(|e| failed("make", e))?;
    // For reading alone, and from its beginning.
    let source = open_part(appended).map_err(|e| CommitError::disk("open", appended, e.into()))?;
    if let Err(why) = (finish.make)(&source, &target, rows, told) {
        // Should it stay, the next start removes it.
        let _ = fs::remove_file(new);
        let path = path.to_owned();
        return Err(CommitError::Unmade { path, kept: kept.to_owned(), source: why });
    }
    target.sync_all().map_err(|e| failed("write to disk", e))
}
