//! Finds committed files that did not get to the output, because the machine that had them is gone.
//!
//! Files of attempts wait on the machine that ran them. The journal records them first, then they are
//! published. If another machine continues the job in between, from the commit log, these files are lost, and
//! their mini-batches run again.

use super::error::CommitError;
use super::target::CommitTarget;
use crate::journal::{FileEntry, Journal, JournalChanges};
use crate::model::{JobStatus, MiniBatchId, OnConflict};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;

/// The mini-batches whose files are lost. Does nothing unless the journal comes from the commit log: on the
/// machine that ran the job, a file that is missing was removed by the user.
///
/// Removes all files of `init` and `shutdown` that were appended to others: another worker makes them again.
/// It is unknown whether all of them, and their empty folders, were published.
pub(super) fn find(
    target: &CommitTarget,
    journal: &mut Journal,
) -> Result<HashSet<MiniBatchId>, CommitError> {
    if !journal.is_from_log()? || journal.finished()? == Some(JobStatus::Completed) {
        return Ok(HashSet::new());
    }
    let entries = journal.files()?;
    let (kept, lifecycle): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.mini_batch.is_some());
    if !lifecycle.is_empty() {
        remove_lifecycle_files(target, &kept, &lifecycle)?;
        journal.commit(&JournalChanges {
            replaces_files: true,
            files: kept.clone(),
            ..JournalChanges::default()
        })?;
    }
    let last: HashMap<&str, usize> =
        kept.iter().enumerate().map(|(index, entry)| (entry.path.as_str(), index)).collect();
    // Unless files are appended, only the last one of each name is in the output.
    let is_wanted = |index: usize, entry: &FileEntry| {
        target.on_conflict == OnConflict::Append || last.get(entry.path.as_str()) == Some(&index)
    };
    let is_lost = |(index, entry): &(usize, &FileEntry)| {
        is_wanted(*index, entry) && !is_published(target, entry)
    };
    let lost = kept.iter().enumerate().filter(is_lost);
    Ok(lost.filter_map(|(_, entry)| entry.mini_batch).collect())
}

/// Removes the published files of `init` and `shutdown`. If mini-batches have written to a file, too, only its
/// end is removed, by [`read_lengths`](super::recover_files::read_lengths).
fn remove_lifecycle_files(
    target: &CommitTarget,
    kept: &[FileEntry],
    lifecycle: &[FileEntry],
) -> Result<(), CommitError> {
    let shared: HashSet<&str> = kept.iter().map(|entry| entry.path.as_str()).collect();
    for entry in lifecycle.iter().filter(|entry| !shared.contains(entry.path.as_str())) {
        let path = target.output.join(&entry.path);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(CommitError::disk("remove", &path, e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a committed file is in the output.
fn is_published(target: &CommitTarget, entry: &FileEntry) -> bool {
    let found = fs::symlink_metadata(target.output.join(&entry.path)).ok();
    let length = found.filter(fs::Metadata::is_file).map(|found| found.len());
    match target.on_conflict {
        OnConflict::Append => length.is_some_and(|length| length >= entry.offset + entry.length),
        OnConflict::Error | OnConflict::Overwrite => length == Some(entry.length),
    }
}
