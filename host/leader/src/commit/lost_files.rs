//! Finds committed files that did not get to the output, because the machine that had them is gone.
//!
//! Files of attempts wait on the machine that ran them. The journal records them first, then they are
//! published. If another machine continues the job in between, from the commit log, these files are lost, and
//! their mini-batches run again.
//!
//! So a group with files also notes its mini-batches, and the next group replaces the note: by then, the files
//! are published. All mini-batches in the note run again, even if some of their files are in the output. The
//! output cannot tell whether a file there is this one or an earlier one of the same name and length.

use super::error::CommitError;
use super::target::CommitTarget;
use super::worker_folders::WorkerFolders;
use crate::journal::{
    Committed, DONE_PREFIX, EntryOrder, FileEntry, Journal, JournalChanges, JournalEntry,
    JournalError,
};
use crate::model::{JobStatus, MiniBatchId};
use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;

/// The key of the note on the mini-batches whose files are being published.
const PUBLISHING_KEY: &str = "store.publishing";

/// The key of the note on the place of the workers' folders, if it is not the job directory.
const PLACE_KEY: &str = "store.workers";

/// The note of a group that is about to be committed. `None` if it needs none. Only jobs with a commit log
/// need it.
pub(super) fn note(
    journal: &Journal,
    entries: &[JournalEntry],
) -> Result<Option<(String, Option<String>)>, CommitError> {
    if !journal.has_log() {
        return Ok(None);
    }
    let with_files = entries.iter().filter(|entry| entry.end.has_files());
    let ids: Vec<u64> = with_files.map(|entry| entry.id.0).collect();
    if ids.is_empty() {
        let is_noted = journal.noted(PUBLISHING_KEY)?.is_some();
        return Ok(is_noted.then(|| (PUBLISHING_KEY.to_owned(), None)));
    }
    Ok(Some(publishing(ids)))
}

/// The note on these mini-batches.
fn publishing(ids: Vec<u64>) -> (String, Option<String>) {
    (PUBLISHING_KEY.to_owned(), Some(serde_json::Value::from(ids).to_string()))
}

/// Call this before a journal that had no commit log gets one. Notes the mini-batches whose files still wait to
/// be published in this job directory.
pub(crate) fn note_unpublished(
    journal: &mut Journal,
    folders: &WorkerFolders,
) -> Result<(), JournalError> {
    if journal.is_new() {
        return Ok(());
    }
    let mut ids = Vec::new();
    journal.for_each(EntryOrder::Commit, |Committed { entry, .. }| {
        let staged = entry.worker.filter(|_| entry.end.has_files());
        let staged = staged.map(|worker| folders.staged(worker, entry.id, entry.attempts));
        ids.extend(staged.filter(|staged| staged.exists()).map(|_| entry.id.0));
    })?;
    if ids.is_empty() {
        return Ok(());
    }
    let notes = vec![publishing(ids)];
    journal.commit(&JournalChanges { notes, ..JournalChanges::default() })
}

/// Whether this process cannot reach the folders in which workers of earlier runs left their files. Folders in
/// the job's store can be reached from each machine, and those in a job directory only where the job ran.
pub(super) fn are_out_of_reach(
    folders: &WorkerFolders,
    journal: &Journal,
) -> Result<bool, CommitError> {
    let place = folders.place();
    let has_moved = journal.noted(PLACE_KEY)? != place;
    Ok(has_moved || (place.is_none() && journal.is_from_log()?))
}

/// The note on the place of the workers' folders. `None` if the journal has it.
pub(super) fn note_place(
    folders: &WorkerFolders,
    journal: &Journal,
) -> Result<Option<(String, Option<String>)>, CommitError> {
    let place = folders.place();
    Ok((journal.noted(PLACE_KEY)? != place).then(|| (PLACE_KEY.to_owned(), place)))
}

/// If the folders of earlier runs' workers are out of reach: removes what is in the folders at the new place,
/// and returns the mini-batches whose files are lost. The folders may hold files of an earlier leader, with the
/// same names as those that are lost. On the machine that ran the job, a file that is missing was removed by the
/// user.
///
/// Removes all files of `init` and `shutdown` from the output: another worker makes them again. It is unknown
/// whether all of them were published.
pub(super) fn find(
    target: &CommitTarget,
    journal: &mut Journal,
) -> Result<HashSet<MiniBatchId>, CommitError> {
    if !are_out_of_reach(&target.worker_folders, journal)? {
        return Ok(HashSet::new());
    }
    target.worker_folders.remove_all()?;
    if journal.finished()? == Some(JobStatus::Completed) {
        return Ok(HashSet::new());
    }
    let (kept, lifecycle): (Vec<_>, Vec<_>) =
        journal.files()?.into_iter().partition(|entry| entry.mini_batch.is_some());
    if !lifecycle.is_empty() {
        remove_lifecycle_files(target, &kept, &lifecycle)?;
        journal.commit(&JournalChanges {
            replaces_files: true,
            files: kept,
            ..JournalChanges::default()
        })?;
    }
    let Some(note) = journal.noted(PUBLISHING_KEY)? else { return Ok(HashSet::new()) };
    let ids: Vec<u64> = serde_json::from_str(&note).map_err(CommitError::Unnoted)?;
    Ok(ids.into_iter().map(MiniBatchId).collect())
}

/// Call this when the lost mini-batches have been removed from the journal.
pub(super) fn forget(folders: &WorkerFolders, journal: &mut Journal) -> Result<(), CommitError> {
    let mut notes = Vec::new();
    if are_out_of_reach(folders, journal)? {
        // The workers in these notes left their files elsewhere.
        let done = journal.notes(DONE_PREFIX)?;
        notes.extend(done.into_iter().map(|(number, _)| (format!("{DONE_PREFIX}{number}"), None)));
        notes.push((PUBLISHING_KEY.to_owned(), None));
    }
    notes.extend(note_place(folders, journal)?);
    if journal.is_from_log()? {
        return Ok(journal.forget_origin(notes)?);
    }
    if notes.is_empty() {
        return Ok(());
    }
    Ok(journal.commit(&JournalChanges { notes, ..JournalChanges::default() })?)
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
