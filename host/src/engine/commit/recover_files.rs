//! Files, when a job is taken up.

use super::error::CommitError;
use super::files::{Files, source};
use super::item::Item;
use super::replace::Replacement;
use super::target::CommitTarget;
use crate::fail_point;
use crate::journal::{Changes, FileEntry, Journal};
use crate::model::{JobDir, MiniBatchId, OnConflict, WorkerId};
use crate::output::remove_tree;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Publishes what is committed and not published yet, in the order of commits.
pub(super) fn publish(
    target: &CommitTarget,
    journal: &Journal,
    files: &mut Files,
    items: &[Item],
) -> Result<(), CommitError> {
    let present = folders(&target.job_dir)?;
    if present.is_empty() {
        return Ok(());
    }
    let entries = journal.files()?;
    let of_items = items.iter().filter(|item| item.has_files).filter_map(|item| {
        let id = MiniBatchId(item.id);
        Some(source(&target.job_dir, &target.job_dir.staged(item.worker?, id, item.attempts)))
    });
    // Those with files first, in their order; those that left folders only come after them.
    let mut wanted: Vec<PathBuf> = Vec::new();
    let mut seen = HashSet::new();
    for name in entries.iter().map(|entry| entry.source.clone()).chain(of_items) {
        let folder = target.job_dir.root().join(&name);
        if present.contains(&folder) && seen.insert(name) {
            wanted.push(folder);
        }
    }
    files.publish(target, &wanted, &entries, true)?;
    fail_point::pass("recovered-files-published");
    Ok(())
}

/// All folders from which files are published.
fn folders(job_dir: &JobDir) -> Result<HashSet<PathBuf>, CommitError> {
    let mut all = HashSet::new();
    for worker in list(&job_dir.work())? {
        all.extend(list(&worker.join("staged"))?);
        all.extend(Some(worker.join("output")).filter(|folder| folder.is_dir()));
    }
    Ok(all)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, CommitError> {
    let read = match fs::read_dir(folder) {
        Ok(read) => read,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(CommitError::disk("look into", folder, e)),
    };
    let paths: Result<Vec<_>, _> = read.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(|e| CommitError::disk("look into", folder, e))
}

/// Under [`OnConflict::Append`], learns how long published files are, cuts off what is not the job's,
/// and refuses to go on where something is missing.
pub(super) fn read_lengths(
    target: &CommitTarget,
    journal: &Journal,
    files: &mut Files,
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

/// Prepares that the files of mini-batches that run again go out of the output. They stay until the journal
/// has that: the next start may find these mini-batches' rows after all.
pub(super) fn take_out(
    target: &CommitTarget,
    journal: &Journal,
    gone: &HashSet<MiniBatchId>,
    replacement: &mut Replacement,
    changes: &mut Changes,
) -> Result<(), CommitError> {
    let entries = journal.files()?;
    let is_gone = |entry: &FileEntry| entry.mini_batch.is_some_and(|id| gone.contains(&id));
    if !entries.iter().any(is_gone) {
        return Ok(());
    }
    if target.on_conflict != OnConflict::Append {
        // Each file is that of the last one who wrote it.
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
        let new = replacement.place(&target.output, &path);
        let own = kept.iter_mut().filter(|entry| entry.path == path);
        without_gaps(&old, &new, own).map_err(|e| CommitError::disk("write anew", &old, e))?;
    }
    changes.files_anew = true;
    changes.files = kept;
    Ok(())
}

/// Copies the parts of a file that are kept, one behind the other.
fn without_gaps<'a>(
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

/// Removes what workers of earlier runs left, but what is to be published. Should some stay, nothing
/// refers to it.
pub(super) fn clean_up(target: &CommitTarget, files: &Files) {
    let dir = &target.job_dir;
    for folder in [dir.models(), dir.links()] {
        let _ = remove_tree(&folder);
    }
    for folder in list(&target.job_dir.work()).unwrap_or_default() {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !worker_of(name).is_some_and(|worker| files.done.contains(&worker)) {
            let _ = remove_tree(&folder);
            continue;
        }
        for inner in list(&folder).unwrap_or_default() {
            if inner.file_name().is_none_or(|name| name != "output") {
                let _ = remove_tree(&inner);
            }
        }
    }
}

/// The workers whose files are published.
pub(super) fn workers(journal: &Journal) -> Result<Vec<WorkerId>, CommitError> {
    let entries = journal.files()?;
    let named = |entry: &FileEntry| entry.source.split('/').find_map(worker_of);
    Ok(entries.iter().filter_map(named).collect())
}

/// Numbers from this on are no worker's that ever was.
const NO_WORKER: u32 = 1 << 31;

/// The worker that a folder or part file is named after.
pub(in crate::engine) fn worker_of(name: &str) -> Option<WorkerId> {
    let name = name.strip_suffix(".part").unwrap_or(name);
    let worker = WorkerId(name.strip_prefix("process")?.parse().ok()?);
    (worker.0 < NO_WORKER && worker.to_string() == name).then_some(worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_workers_name_one() {
        for (name, worker) in [("process007", Some(7)), ("process1000.part", Some(1000))] {
            assert_eq!(worker_of(name).map(|worker| worker.0), worker);
        }
        // With the last of these, no number would be left for the next worker.
        for name in ["process7", "process+07", "process", "x007", "process4294967295.part"] {
            assert_eq!(worker_of(name), None, "{name}");
        }
    }
}
