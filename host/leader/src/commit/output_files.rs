//! Makes an output file, such as a Parquet file, from the appended rows.

use super::disk::open_part;
use super::error::CommitError;
use super::target::OutputConversion;
use std::fs::{self, OpenOptions};
use std::path::Path;

/// An output file that is being made.
pub(super) struct FileInProgress<'a> {
    /// The file that rows were appended to.
    pub(super) appended: &'a Path,
    /// The path at which the output file is made.
    pub(super) temporary: &'a Path,
    /// The output file's final path, for error messages.
    pub(super) final_path: &'a Path,
    /// The file in which the rows remain if the output file cannot be made.
    pub(super) kept: &'a Path,
    /// The number of rows that the output file must have.
    pub(super) rows: u64,
}

/// Makes and syncs the output file. After an error, the file does not exist.
pub(super) fn make_output_file(
    conversion: &OutputConversion,
    making: &FileInProgress<'_>,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), CommitError> {
    let &FileInProgress { appended, temporary, final_path, kept, rows } = making;
    let failed = |action, error| CommitError::disk(action, temporary, error);
    let target = OpenOptions::new().read(true).write(true).create_new(true).open(temporary);
    let target = target.map_err(|e| failed("make", e))?;
    // `make` gets a read-only file, with the position at its beginning.
    let source = open_part(appended).map_err(|e| CommitError::disk("open", appended, e.into()))?;
    if let Err(why) = (conversion.make)(&source, &target, rows, on_progress) {
        // If the incomplete file stays, the next start removes it.
        let _ = fs::remove_file(temporary);
        let path = final_path.to_owned();
        return Err(CommitError::Unmade { path, kept: kept.to_owned(), source: why });
    }
    target.sync_all().map_err(|e| failed("write to disk", e))
}
