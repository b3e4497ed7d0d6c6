//! At the job's end, makes an output file to which rows cannot be appended, such as a Parquet file.
//! The file is made, under a temporary name, from rows that were appended to another file. It is
//! renamed when it is complete and synced. After an interruption, the next start makes it again.
//! The appended rows are removed only after the journal has recorded the job's end.

use super::disk::sync_folder;
use super::error::CommitError;
use super::output_files::{FileInProgress, make_output_file};
use super::parts_output;
use super::replace::NEW_PREFIX;
use super::store::CommitState;
use super::target::CommitTarget;
use crate::fail_point;
use std::fs;
use std::io::ErrorKind;

/// Makes the output file, if the job has one of this kind.
pub(super) fn make(
    store: &CommitState,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), CommitError> {
    let (Some(rows), Some(conversion)) = (&store.rows, &store.target.conversion) else {
        return Ok(());
    };
    let output = &store.target.output;
    let path = output.join(&conversion.name);
    let temporary = output.join(format!("{NEW_PREFIX}output"));
    // An earlier attempt to end the job may have left a file.
    let _ = fs::remove_file(&temporary);
    let appended = rows.path();
    let rows = store.journal.counts().rows;
    let making =
        FileInProgress { appended, temporary: &temporary, final_path: &path, kept: appended, rows };
    make_output_file(conversion, &making, on_progress)?;
    fail_point::pass("output-made");
    fs::rename(&temporary, &path)
        .map_err(|e| CommitError::disk("rename a new file to", &path, e))?;
    fail_point::pass("output-named");
    sync_folder(output)
}

/// Removes the file that the output was made from.
pub(super) fn clean_up(target: &CommitTarget) {
    if let (Some(name), Some(_), None) =
        (&target.output_file, &target.conversion, &target.part_suffix)
    {
        // If the file stays, the output beside it is still correct.
        let _ = fs::remove_file(target.output.join(name));
        fail_point::pass("appended-removed");
    }
}

/// The target for a job that resumes. If the job has completed and only its finished output is
/// left, the target has no file for appended rows. Otherwise, this removes an output file that was
/// already made, because the job makes the file again.
pub(super) fn resumed_target(
    target: CommitTarget,
    is_completed: bool,
) -> Result<CommitTarget, CommitError> {
    if target.part_suffix.is_some() {
        return parts_output::resumed_target(target, is_completed);
    }
    let Some(conversion) = &target.conversion else { return Ok(target) };
    let path = target.output.join(&conversion.name);
    let is_gone = |name: &String| target.output.join(name).symlink_metadata().is_err();
    if is_completed && target.output_file.as_ref().is_some_and(is_gone) && path.is_file() {
        return Ok(CommitTarget { output_file: None, conversion: None, ..target });
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(CommitError::disk("remove", &path, error))
        }
        _ => Ok(target),
    }
}
