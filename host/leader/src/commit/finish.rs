//! The output file that is made at a job's end from the appended rows. It is made under another name, and
//! renamed when it is complete and synced. If that is interrupted, the next start makes it again. Its sources
//! are removed only when the journal has the job's end.

use super::disk::sync_folder;
use super::error::CommitError;
use super::output_files::{FileInProgress, write};
use super::parts_output;
use super::replace::NEW;
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
    let (Some(rows), Some(finish)) = (&store.rows, &store.target.finish) else {
        return Ok(());
    };
    let output = &store.target.output;
    let path = output.join(&finish.name);
    let new = output.join(format!("{NEW}output"));
    // Left over from an earlier attempt to end the job.
    let _ = fs::remove_file(&new);
    let appended = rows.path();
    let rows = store.journal.counts().rows;
    let making = FileInProgress { appended, new: &new, path: &path, kept: appended, rows };
    write(finish, &making, on_progress)?;
    fail_point::pass("output-made");
    fs::rename(&new, &path).map_err(|e| CommitError::disk("rename a new file to", &path, e))?;
    fail_point::pass("output-named");
    sync_folder(output)
}

/// Removes the file that the output was made from.
pub(super) fn clean_up(target: &CommitTarget) {
    if let (Some(name), Some(_), None) = (&target.output_file, &target.finish, &target.parts) {
        // If it stays, the output beside it is still correct.
        let _ = fs::remove_file(target.output.join(name));
        fail_point::pass("appended-removed");
    }
}

/// The target for a job that resumes. If the job has completed and only its finished output is left, the
/// target has no appended rows to maintain. Otherwise, this removes an output file that was already made: it
/// is made again.
pub(super) fn resumed_target(
    target: CommitTarget,
    completed: bool,
) -> Result<CommitTarget, CommitError> {
    if target.parts.is_some() {
        return parts_output::resumed_target(target, completed);
    }
    let Some(finish) = &target.finish else { return Ok(target) };
    let path = target.output.join(&finish.name);
    let is_gone = |name: &String| target.output.join(name).symlink_metadata().is_err();
    if completed && target.output_file.as_ref().is_some_and(is_gone) && path.is_file() {
        return Ok(CommitTarget { output_file: None, finish: None, ..target });
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(CommitError::disk("remove", &path, error))
        }
        _ => Ok(target),
    }
}
