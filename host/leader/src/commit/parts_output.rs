//! An output with one file per worker. While the job runs, rows stay in the files to which the
//! workers wrote them. At the job's end, when all workers are gone and cannot change anything, a
//! folder is made under a temporary name. For each part file with committed rows, the folder gets a
//! hard link, or a copy of the committed rows if the part file also holds something else. For a
//! format with types, the final file is then made from the link or copy. If the job has completed,
//! each file is read back and compared with the checksums of its rows. Then the folder is renamed
//! to its final name. After an interruption, the next start makes the folder again: the part files
//! hold all rows until the journal records that the job has completed.

use super::confirm::UnconfirmedTail;
use super::disk::{begins_with, sync_folder};
use super::error::CommitError;
use super::header::all_open_columns;
use super::output_files::{FileInProgress, make_output_file};
use super::recover_files as files;
use super::replace::{NEW_PREFIX, Replacement};
use super::rows::{mark, trusted_length};
use super::settling::Settling;
use super::store::CommitState;
use super::target::CommitTarget;
use super::worker_parts::Parts;
use crate::fail_point;
use crate::files::{Appender, OutputError, remove_tree};
use crate::journal::{Committed, EntryOrder, Journal, JournalChanges};
use crate::model::{JobStatus, MiniBatchId, Segment, WorkerId, unfinished};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The prefix of a journal's note. The worker's number follows. The note says how much of the worker's part
/// file has been verified: see [`mark`].
const VERIFIED_PREFIX: &str = "store.verified.";

/// The progress is reported each time the rows of this many mini-batches have been copied.
const MINI_BATCHES_PER_REPORT: usize = 64;

/// The output folder of parts, and the suffix of their names. `None` if the job makes no parts.
fn folder(target: &CommitTarget) -> Option<(PathBuf, &str)> {
    let (name, suffix) = target.output_file.as_ref().zip(target.part_suffix.as_deref())?;
    Some((target.output.join(name), suffix))
}

/// Makes the output folder, if the job has an output of one file per worker.
pub(super) fn make(
    store: &mut CommitState,
    status: JobStatus,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), CommitError> {
    let Some((folder, suffix)) = folder(&store.target) else { return Ok(()) };
    let is_completed = status == JobStatus::Completed;
    if !is_completed && store.target.conversion.is_some() {
        // Make no file with types before the job has completed: such a file gets its name only when
        // it is complete. An output of lines is useful even if the job may still resume.
        return Ok(());
    }
    let temporary = store.target.output.join(format!("{NEW_PREFIX}parts"));
    let failed = |e| CommitError::disk("make the folder", &temporary, e);
    // An earlier attempt to end the job may have left a folder.
    remove_tree(&temporary).and_then(|()| fs::create_dir(&temporary)).map_err(failed)?;
    let header = match &store.header {
        Some(top) if !top.bytes.is_empty() => top.bytes.clone(),
        _ => all_open_columns(&store.journal)?,
    };
    let parts = PartsInProgress {
        store,
        header,
        is_completed,
        folder: &folder,
        temporary: &temporary,
        suffix,
        on_progress,
        done: 0,
    };
    if let Err(why) = parts.make_all() {
        // If the folder stays, the next start removes it.
        let _ = remove_tree(&temporary);
        forget_verified(&mut store.journal)?;
        return Err(why.renamed(&temporary, &folder));
    }
    sync_folder(&temporary)?;
    fail_point::pass("output-made");
    fs::rename(&temporary, &folder)
        .map_err(|e| CommitError::disk("rename a new folder to", &folder, e))?;
    fail_point::pass("output-named");
    sync_folder(&store.target.output)
}

/// Removes all marks of verified part files. Files may have changed since they were verified, so the next
/// start verifies all rows.
fn forget_verified(journal: &mut Journal) -> Result<(), CommitError> {
    let known = journal.notes(VERIFIED_PREFIX)?;
    let notes = known.into_iter().map(|(worker, _)| (format!("{VERIFIED_PREFIX}{worker}"), None));
    let changes = JournalChanges { notes: notes.collect(), ..JournalChanges::default() };
    Ok(journal.commit(&changes)?)
}

/// The folder while it is being made.
struct PartsInProgress<'a> {
    store: &'a CommitState,
    /// The beginning of each file.
    header: Vec<u8>,
    /// Whether the job has completed. If not, the rows are read back later, when the job resumes.
    is_completed: bool,
    /// The folder's final path.
    folder: &'a Path,
    /// The path at which the folder is made.
    temporary: &'a Path,
    suffix: &'a str,
    on_progress: &'a mut dyn FnMut(u64),
    /// The size of the finished parts.
    done: u64,
}

impl PartsInProgress<'_> {
    fn make_all(mut self) -> Result<(), CommitError> {
        let store = self.store;
        let mut result = Ok(());
        let mut rows: Option<(WorkerId, Vec<Segment>)> = None;
        let visit = |Committed { entry, .. }: Committed| {
            let Some((worker, segment)) = entry.worker.zip(entry.end.rows()) else { return };
            match &mut rows {
                Some((same, segments)) if *same == worker => segments.push(segment),
                _ => {
                    if let Some((last, segments)) = rows.replace((worker, vec![segment]))
                        && result.is_ok()
                    {
                        result = self.make_part(last, &segments);
                    }
                }
            }
        };
        store.journal.for_each(EntryOrder::PartFile, visit)?;
        result?;
        rows.map_or(Ok(()), |(worker, segments)| self.make_part(worker, &segments))
    }

    /// Makes the output file of one worker. `segments` are its rows, in the order of their positions.
    fn make_part(&mut self, worker: WorkerId, segments: &[Segment]) -> Result<(), CommitError> {
        let name = format!("part-{worker}{}", self.suffix);
        let made = self.temporary.join(&name);
        let Some(conversion) = &self.store.target.conversion else {
            self.done += self.gather(worker, segments, &made)?;
            return self.report_part();
        };
        let appended = self.temporary.join(unfinished(&name));
        let bytes = self.gather(worker, segments, &appended)?;
        let making = FileInProgress {
            appended: &appended,
            temporary: &made,
            final_path: &self.folder.join(&name),
            kept: &self.store.target.worker_folders.part_file(worker),
            rows: segments.iter().map(|segment| segment.rows).sum(),
        };
        let done = self.done;
        make_output_file(conversion, &making, &mut |read| (self.on_progress)(done + read))?;
        fs::remove_file(&appended).map_err(|e| CommitError::disk("remove", &appended, e))?;
        self.done += bytes;
        self.report_part()
    }

    /// Reports the progress after each part.
    fn report_part(&mut self) -> Result<(), CommitError> {
        (self.on_progress)(self.done);
        fail_point::pass("part-made");
        Ok(())
    }

    /// Makes and syncs a file of the header and a worker's rows, and nothing else. If the job has completed,
    /// reads it back. Returns its length.
    fn gather(
        &mut self,
        worker: WorkerId,
        segments: &[Segment],
        path: &Path,
    ) -> Result<u64, CommitError> {
        let header = self.header.as_slice();
        let places = &self.store.target.worker_folders;
        let part = places.part_file(worker);
        let source = places.open_part(worker);
        let source = source.map_err(|e| CommitError::disk("open", &part, e.into()))?;
        let mut gathered = || -> Result<Appender, OutputError> {
            let may_link = places.are_ended() && is_whole(&source, header, segments);
            if may_link && try_link(&part, path) {
                return Appender::open(path);
            }
            let mut file = Appender::create(path)?;
            file.write_at(header, 0)?;
            for some in segments.chunks(MINI_BATCHES_PER_REPORT) {
                file.append_all(&source, some)?;
                (self.on_progress)(self.done + file.len());
            }
            Ok(file)
        };
        let mut file = gathered()?;
        let mut written = UnconfirmedTail::default();
        written.add_header(header);
        written.add(worker, segments);
        let rows: u64 = segments.iter().map(|segment| segment.length).sum();
        let length = header.len() as u64 + rows;
        if file.len() > length {
            // After `length` come only rows of the worker's last attempts, which failed.
            file.truncate(length)?;
        }
        file.sync()?;
        if self.is_completed {
            written.confirm(&file)?;
        }
        Ok(length)
    }
}

/// Whether the rows follow the header in the file without gaps.
fn is_whole(part: &File, header: &[u8], segments: &[Segment]) -> bool {
    let mut end = header.len() as u64;
    let mut follows = |segment: &Segment| {
        let expected = std::mem::replace(&mut end, segment.offset.saturating_add(segment.length));
        expected == segment.offset
    };
    segments.iter().all(&mut follows) && begins_with(part, header)
}

/// Hard-links a part file to `path`. Returns false if there is no link. Links only ordinary files
/// without special permissions, because a compromised worker may have replaced the part file.
fn try_link(part: &Path, path: &Path) -> bool {
    let is_plain = |found: fs::Metadata| {
        let special = found.permissions().mode() & 0o7111;
        found.is_file() && found.nlink() == 1 && special == 0
    };
    // Fails if the output is on another file system, or on one without hard links. Then the rows are copied.
    part.symlink_metadata().is_ok_and(is_plain) && fs::hard_link(part, path).is_ok()
}

/// The target for a job that resumes. If the job has completed and its folder is made, the target
/// has no rows to maintain. Otherwise, this removes a folder that was already made: the part files
/// hold the rows.
pub(super) fn resumed_target(
    target: CommitTarget,
    is_completed: bool,
) -> Result<CommitTarget, CommitError> {
    let Some((folder, _)) = folder(&target) else { return Ok(target) };
    if is_completed && folder.is_dir() {
        return Ok(CommitTarget {
            output_file: None,
            part_suffix: None,
            conversion: None,
            ..target
        });
    }
    remove_tree(&folder).map_err(|e| CommitError::disk("remove", &folder, e))?;
    Ok(target)
}

/// Checks all rows in the part files, except the rows verified at an earlier resume. Mini-batches whose rows
/// are damaged are removed from the journal and returned: they run again.
pub(super) fn settle(
    settling: Settling<'_>,
    journal: &mut Journal,
    parts: &mut Parts,
) -> Result<HashSet<MiniBatchId>, CommitError> {
    let noted = journal.notes(VERIFIED_PREFIX)?;
    let noted: HashMap<String, String> = noted.into_iter().collect();
    let mut gone: HashSet<_> = settling.run_again().collect();
    // How much of each part file is verified, now and before.
    let mut verified: BTreeMap<WorkerId, (u64, u64)> = BTreeMap::new();
    for item in settling.items {
        let Some((segment, worker)) = item.rows.zip(item.worker) else { continue };
        let (length, known) = verified.entry(worker).or_insert_with(|| {
            let mark = noted.get(&worker.0.to_string()).map(String::as_str);
            let known = parts.get(worker).map_or(0, |file| trusted_length(mark, file));
            (known, known)
        });
        let end = segment.offset.saturating_add(segment.length);
        if end <= *known || parts.holds(item.worker, &segment) {
            *length = end.max(*length);
        } else {
            gone.insert(MiniBatchId(item.id));
        }
    }
    let mut notes = Vec::new();
    for (worker, (length, known)) in verified {
        if length > known {
            let path = || settling.target.worker_folders.part_file(worker);
            let mark = mark(parts.get(worker)?, length);
            let mark = mark.map_err(|source| CommitError::Read { path: path(), source })?;
            notes.push((format!("{VERIFIED_PREFIX}{}", worker.0), Some(mark)));
        }
    }
    let removed = gone.iter().copied().collect();
    let mut changes = JournalChanges { removed, notes, ..JournalChanges::default() };
    let mut replacement = Replacement::default();
    files::prepare_removal(settling.target, journal, &gone, &mut replacement, &mut changes)?;
    replacement.commit(changes, journal, &settling.target.output)?;
    Ok(gone)
}
