//! Restores the files of a job that resumes.

use super::error::CommitError;
use super::files::FilesState;
use super::item::FinishedMiniBatch;
use super::replace::Replacement;
use super::target::CommitTarget;
use super::worker_folders::worker_of;
use crate::fail_point;
use crate::journal::{FileEntry, Journal, JournalChanges};
use crate::model::{MiniBatchId, OnConflict, WorkerId};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Publishes files that were committed but not published, in commit order.
pub(super) fn publish(
    target: &CommitTarget,
    journal: &Journal,
    files: &mut FilesState,
    items: &[FinishedMiniBatch],
) -> Result<(), CommitError> {
    let present = target.worker_folders.publishable()?;
    if present.is_empty() {
        return Ok(());
    }
    let entries = journal.files()?;
    let of_items = items.iter().filter(|item| item.has_files).filter_map(|item| {
        let id = MiniBatchId(item.id);
        let staged = target.worker_folders.staged(item.worker?, id, item.attempts);
        Some(target.worker_folders.journal_name(&staged))
    });
    // First the folders that contain files, in the journal's order. Then folders that contain only folders.
    let mut wanted: Vec<PathBuf> = Vec::new();
    let mut seen = HashSet::new();
    for name in entries.iter().map(|entry| entry.source.clone()).chain(of_items) {
        let folder = target.worker_folders.folder_named(&name);
        if present.contains(&folder) && seen.insert(name) {
            wanted.push(folder);
        }
    }
    files.publish(target, &wanted, &entries, true)?;
    fail_point::pass("recovered-files-published");
    Ok(())
}

/// Under [`OnConflict::Append`]: determines the lengths of published files, and cuts off the bytes that the
/// journal does not record. Fails if bytes are missing.
pub(super) fn read_lengths(
    target: &CommitTarget,
    journal: &Journal,
    files: &mut FilesState,
) -> Result<(), CommitError> {
    if target.on_conflict != OnConflict::Append {
        return Ok(());
    }
    for FileEntry { path, offset, length, .. } in journal.files()? {
        let end = files.lengths.entry(path).or_default();
        *end = (*end).max(offset + length);
    }
    for (path, &written) in &files.lengths {
        let path = target.output.join(path);
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
        let found = found.map_or(0, |metadata| metadata.len());
        if found < written {
            return Err(CommitError::FileCut { path, found, written });
        }
        if found > written {
            let cut = open_to_write(&path).and_then(|file| file.set_len(written));
            cut.map_err(|e| CommitError::disk("cut", &path, e))?;
        }
    }
    Ok(())
}

fn open_to_write(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Prepares the removal of files whose mini-batches run again. The files stay until the journal has recorded
/// the removal: if the job is interrupted before that, the next start may find the rows of these mini-batches
/// after all.
pub(super) fn prepare_removal(
    target: &CommitTarget,
    journal: &Journal,
    gone: &HashSet<MiniBatchId>,
    replacement: &mut Replacement,
    changes: &mut JournalChanges,
) -> Result<(), CommitError> {
    let entries = journal.files()?;
    let is_gone = |entry: &FileEntry| entry.mini_batch.is_some_and(|id| gone.contains(&id));
    if !entries.iter().any(is_gone) {
        return Ok(());
    }
    if target.on_conflict != OnConflict::Append {
        // A file belongs to the mini-batch that wrote it last.
        let last: HashMap<_, _> =
            entries.iter().map(|entry| (&entry.path, is_gone(entry))).collect();
        let gone = last.into_iter().filter(|(_, gone)| *gone);
        gone.for_each(|(path, _)| replacement.remove(path.clone()));
        return Ok(());
    }
    let touched: HashSet<String> =
        entries.iter().filter(|entry| is_gone(entry)).map(|entry| entry.path.clone()).collect();
    let mut kept: Vec<_> = entries.into_iter().filter(|entry| !is_gone(entry)).collect();
    for path in touched {
        let old = target.output.join(&path);
        if !kept.iter().any(|entry| entry.path == path) {
            replacement.remove(path);
            continue;
        }
        let new = replacement.new_file_for(&target.output, &path);
        let own = kept.iter_mut().filter(|entry| entry.path == path);
        copy_without_gaps(&old, &new, own).map_err(|e| CommitError::disk("rewrite", &old, e))?;
    }
    changes.replaces_files = true;
    changes.files = kept;
    Ok(())
}

/// Copies the parts of a file that stay, without gaps between them.
fn copy_without_gaps<'a>(
    old: &Path,
    new: &Path,
    kept: impl Iterator<Item = &'a mut FileEntry>,
) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let mut options = OpenOptions::new();
    let mut from =
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(old)?;
    let mut to = File::create_new(new)?;
    let mut end = 0;
    for entry in kept {
        from.seek(SeekFrom::Start(entry.offset))?;
        if std::io::copy(&mut (&from).take(entry.length), &mut to)? != entry.length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        entry.offset = end;
        end += entry.length;
    }
    to.sync_all()
}

/// The workers whose files have been published.
pub(super) fn workers(journal: &Journal) -> Result<Vec<WorkerId>, CommitError> {
    let entries = journal.files()?;
    let named = |entry: &FileEntry| entry.source.split('/').find_map(worker_of);
    Ok(entries.iter().filter_map(named).collect())
}
