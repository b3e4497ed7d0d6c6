//! Publishes the files that `init` and `shutdown` left, once the job has completed.

use super::error::CommitError;
use super::files::{FilesState, rule};
use super::target::CommitTarget;
use crate::fail_point;
use crate::files::publish::{GuestEntry, check_files, list_files, publish_files, same_file};
use crate::journal::{DONE_PREFIX, FileEntry, Journal, JournalChanges};
use crate::model::{OnConflict, WorkerId};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

/// The files of all workers, by path.
type Left = BTreeMap<String, Vec<(WorkerId, GuestEntry)>>;

/// Publishes what workers left in their output folders, if they ended normally. An error means that the job
/// does not count as completed.
pub(super) fn publish(
    files: &mut FilesState,
    target: &CommitTarget,
    journal: &mut Journal,
) -> Result<(), CommitError> {
    let workers: Vec<_> = files.done.iter().copied().collect();
    let mut left = Left::new();
    for worker in workers {
        for found in list_left(target, worker)? {
            left.entry(found.path.clone()).or_default().push((worker, found));
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    for (path, found) in &left {
        check_kinds(path, found)?;
    }
    files.published = true;
    match target.on_conflict {
        OnConflict::Append => append(files, target, journal, &left),
        OnConflict::Error => {
            left.iter().try_for_each(|(path, found)| check_same(target, path, found))?;
            note_moves(target, journal, &left)?;
            move_all(files, target)
        }
        OnConflict::Overwrite => {
            note_moves(target, journal, &left)?;
            move_all(files, target)
        }
    }
}

/// Records the files that are about to be moved, if the job has a commit log. If this machine is lost, the
/// next one removes them from the output (`lost_files`), and makes its own.
fn note_moves(
    target: &CommitTarget,
    journal: &mut Journal,
    left: &Left,
) -> Result<(), CommitError> {
    if !journal.has_log() {
        return Ok(());
    }
    let noted = journal.files()?.into_iter().filter(|file| file.mini_batch.is_none());
    let noted: HashSet<String> = noted.map(|file| file.path).collect();
    let mut files = Vec::new();
    for (path, found) in left.iter().filter(|(path, _)| !noted.contains(*path)) {
        let Some((worker, length)) = found.iter().find_map(|(w, e)| Some((*w, e.length?))) else {
            continue;
        };
        let source =
            target.worker_folders.journal_name(&target.worker_folders.lifecycle_folder(worker));
        files.push(FileEntry { mini_batch: None, source, path: path.clone(), offset: 0, length });
    }
    let changes = JournalChanges { files, ..JournalChanges::default() };
    if !changes.is_empty() {
        journal.commit(&changes)?;
    }
    Ok(())
}

/// Lists the files that one worker left. Fails if any of them cannot be published.
fn list_left(target: &CommitTarget, worker: WorkerId) -> Result<Vec<GuestEntry>, CommitError> {
    let folder = target.worker_folders.lifecycle_folder(worker);
    let found = list_files(&folder, &rule(target, false, &|_| None));
    found.map_err(|source| CommitError::Left { worker, source })
}

/// Fails if the path is a file of one worker and a folder of another.
fn check_kinds(path: &str, entries: &[(WorkerId, GuestEntry)]) -> Result<(), CommitError> {
    let is_folder = |found: &GuestEntry| found.length.is_none();
    let (first, rest) =
        entries.split_first().map_or((None, entries), |(first, rest)| (Some(first), rest));
    let other =
        rest.iter().find(|(_, found)| Some(is_folder(found)) != first.map(|f| is_folder(&f.1)));
    match (first, other) {
        (Some((first, _)), Some((other, _))) => {
            let path = path.to_owned();
            Err(CommitError::LeftOtherKind { path, first: *first, other: *other })
        }
        _ => Ok(()),
    }
}

/// Fails unless all files of one name have the same content, including a published file of that name.
fn check_same(
    target: &CommitTarget,
    path: &str,
    entries: &[(WorkerId, GuestEntry)],
) -> Result<(), CommitError> {
    let folder = |worker| target.worker_folders.lifecycle_folder(worker);
    let Some(((first, found), rest)) = entries.split_first() else { return Ok(()) };
    if found.length.is_none() {
        return Ok(());
    }
    for (other, _) in rest {
        if !same_file(&folder(*first), &folder(*other), path, None)? {
            let path = path.to_owned();
            return Err(CommitError::LeftTwice { path, first: *first, other: *other });
        }
    }
    let published = target.output.join(path).symlink_metadata().ok();
    let clashes = match published.map(|metadata| metadata.is_file()) {
        None => false,
        Some(true) => !same_file(&folder(*first), &target.output, path, None)?,
        Some(false) => true,
    };
    if clashes {
        return Err(CommitError::LeftPublished { path: path.to_owned(), worker: *first });
    }
    Ok(())
}

/// Moves all files. After a crash, the next start moves the rest.
fn move_all(files: &FilesState, target: &CommitTarget) -> Result<(), CommitError> {
    let rule = rule(target, true, &|_| None);
    for &worker in &files.done {
        let folder = target.worker_folders.lifecycle_folder(worker);
        let checked = check_files(&folder, &target.output, &rule);
        checked.map_err(|source| CommitError::Left { worker, source })?;
    }
    for &worker in &files.done {
        let folder = target.worker_folders.lifecycle_folder(worker);
        publish_files(&folder, &target.output, &rule)
            .map_err(|source| CommitError::Left { worker, source })?;
        fail_point::pass("left-published");
    }
    Ok(())
}

/// Appends all files to the published ones. A file that is identical for all workers is appended only once.
/// If an earlier run has appended the same file, it is not appended again.
fn append(
    files: &mut FilesState,
    target: &CommitTarget,
    journal: &mut Journal,
    left: &Left,
) -> Result<(), CommitError> {
    let folder = |worker| target.worker_folders.lifecycle_folder(worker);
    let mut earlier: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for file in journal.files()? {
        if file.mini_batch.is_none() {
            earlier.entry(file.path).or_default().push((file.offset, file.length));
        }
    }
    let mut wanted: BTreeMap<WorkerId, Vec<GuestEntry>> = BTreeMap::new();
    for (path, entries) in left {
        let Some(((first, _), rest)) = entries.split_first() else { continue };
        let mut is_same = true;
        for (worker, found) in rest {
            is_same = is_same
                && found.length.is_some()
                && same_file(&folder(*first), &folder(*worker), path, None)?;
        }
        let pieces = earlier.get(path).map_or(&[][..], Vec::as_slice);
        for piece in pieces {
            let piece = same_file(&folder(*first), &target.output, path, Some(*piece));
            is_same = is_same && piece?;
        }
        let count = match is_same {
            true => usize::from(pieces.is_empty()),
            false => entries.len(),
        };
        for (worker, found) in &entries[..count] {
            wanted.entry(*worker).or_default().push(found.clone());
        }
    }
    let mut entries = Vec::<FileEntry>::new();
    let mut folders = Vec::<PathBuf>::new();
    for (worker, found) in wanted {
        let folder = folder(worker);
        files.check(target, &folder).map_err(|source| CommitError::Left { worker, source })?;
        entries.extend(files.new_entries(target, None, &folder, &found));
        folders.push(folder);
    }
    // From now on, the journal says where the files of these folders belong.
    let notes =
        files.done.iter().map(|worker| (format!("{DONE_PREFIX}{}", worker.0), None)).collect();
    let changes = JournalChanges { files: entries.clone(), notes, ..JournalChanges::default() };
    journal.commit(&changes)?;
    fail_point::pass("left-journaled");
    files.done.clear();
    files.publish(target, &folders, &entries, true)
}
