//! Makes results again from the copies in the job's store, after another machine has led the job.

use super::disk::sync_file_system_of;
use super::error::CommitError;
use super::header::HeaderColumns;
use super::rows::HEADER_KEY;
use super::saved::{SAVED_PREFIX, SavedFile, SavedIndex, SavedNote, SavedResults};
use super::target::CommitTarget;
use crate::fail_point;
use crate::files::remove_tree;
use crate::journal::{Committed, EntryOrder, Journal, JournalError};
use crate::model::{JobStatus, MiniBatchId, OnConflict, WorkerId};
use crate::opening::{at_its_path, folder_at_its_path};
use rustix::fs::{Mode, OFlags};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How much is copied at once, in bytes.
const COPY_BYTES: u64 = 1 << 20;

/// Where the rows of a mini-batch belong.
#[derive(Clone, Copy)]
struct RowsPlace {
    /// The worker in whose part file they belong. `None` if they belong in the output file.
    worker: Option<WorkerId>,
    offset: u64,
    length: u64,
}

/// Removes everything in the output folder. The folder is in the job directory, and holds only what this job made.
pub(super) fn clear(output: &Path) -> Result<(), CommitError> {
    let failed = |e| CommitError::disk("read", output, e);
    for entry in fs::read_dir(output).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        remove_tree(&path).map_err(|e| CommitError::disk("remove", &path, e))?;
    }
    Ok(())
}

impl SavedResults {
    /// Writes all rows and files that the journal refers to. The output folder and the part files must be empty.
    /// Returns the mini-batches whose files are missing. Missing rows are noticed when the output is compared with
    /// the journal.
    pub(super) fn restore(
        &self,
        target: &CommitTarget,
        journal: &Journal,
    ) -> Result<HashSet<MiniBatchId>, CommitError> {
        let entries = journal.files()?;
        let rows = places_of_rows(target, journal)?;
        let files = entries.iter().map(|entry| (key(&entry.source, &entry.path), entry.offset));
        let files = files.collect();
        let mut restoring = Restoring {
            target,
            rows,
            files,
            restored_rows: HashSet::new(),
            restored_files: HashSet::new(),
            open: None,
        };
        for (_, note) in journal.notes(SAVED_PREFIX)? {
            let note: SavedNote = serde_json::from_str(&note).map_err(CommitError::Unnoted)?;
            let mut bytes = BufReader::new(SavedBytes::new(self, note));
            restoring.restore_group(&mut bytes).map_err(|error| match error {
                RestoreError::Store(source) => {
                    let name = format!("the copies of results in {}", self.folder());
                    JournalError::no_store(name, source).into()
                }
                RestoreError::Disk(error) => error,
            })?;
            fail_point::pass("group-restored");
        }
        let mut missing = entries;
        missing
            .retain(|entry| !restoring.restored_files.contains(&key(&entry.source, &entry.path)));
        let has_all = missing.is_empty() && restoring.restored_rows.len() == restoring.rows.len();
        if !has_all && journal.finished()? == Some(JobStatus::Completed) {
            return Err(CommitError::CopiesMissing(self.folder()));
        }
        sync_file_system_of(&target.output)?;
        fail_point::pass("results-restored");
        Ok(missing.into_iter().filter_map(|entry| entry.mini_batch).collect())
    }
}

/// What identifies a file among all files of a job.
fn key(source: &str, path: &str) -> (String, String) {
    (source.to_owned(), path.to_owned())
}

fn places_of_rows(
    target: &CommitTarget,
    journal: &Journal,
) -> Result<HashMap<u64, RowsPlace>, CommitError> {
    if target.output_file.is_none() {
        return Ok(HashMap::new());
    }
    let header = journal
        .noted(HEADER_KEY)?
        .map(|note| HeaderColumns::from_note(note, target.is_plain))
        .transpose()?;
    let start = header.map_or(0, |top| top.bytes.len() as u64);
    let stay_in_parts = target.ordered || target.part_suffix.is_some();
    let mut places = HashMap::new();
    let visit = |Committed { entry, output_offset }: Committed| {
        let Some((worker, segment)) = entry.worker.zip(entry.end.rows()) else { return };
        let length = segment.length;
        let place = match stay_in_parts {
            true => RowsPlace { worker: Some(worker), offset: segment.offset, length },
            false => RowsPlace { worker: None, offset: start + output_offset, length },
        };
        if length > 0 {
            places.insert(entry.id.0, place);
        }
    };
    journal.for_each(EntryOrder::Commit, visit)?;
    Ok(places)
}

enum RestoreError {
    /// The store failed.
    Store(io::Error),
    Disk(CommitError),
}

/// The results while they are being restored.
struct Restoring<'a> {
    target: &'a CommitTarget,
    /// By the id of the mini-batch.
    rows: HashMap<u64, RowsPlace>,
    /// The offsets of files, by their sources and paths.
    files: HashMap<(String, String), u64>,
    restored_rows: HashSet<u64>,
    restored_files: HashSet<(String, String)>,
    /// The file that was written last.
    open: Option<(PathBuf, File)>,
}

impl Restoring<'_> {
    /// Restores what the journal still refers to. Stops early if objects are missing.
    fn restore_group(&mut self, bytes: &mut impl BufRead) -> Result<(), RestoreError> {
        let mut line = Vec::new();
        bytes.read_until(b'\n', &mut line).map_err(RestoreError::Store)?;
        let Ok(index) = serde_json::from_slice::<SavedIndex<SavedFile>>(&line) else {
            return Ok(());
        };
        for (id, length) in index.rows {
            let place = self.rows.get(&id).filter(|place| place.length == length);
            let place = place.map(|place| (self.path_of_rows(place.worker), place.offset));
            let is_whole = self.copy(bytes, length, place.as_ref())?;
            if is_whole && place.is_some() {
                self.restored_rows.insert(id);
            }
        }
        for SavedFile { source, path, length } in index.files {
            let key = (source, path);
            let place = self.files.get(&key).copied();
            let place = place.map(|offset| (self.target.output.join(&key.1), offset));
            if let Some((path, _)) = &place {
                self.begin_file(path).map_err(|e| failed(path, e))?;
            }
            let is_whole = self.copy(bytes, length, place.as_ref())?;
            if is_whole && place.is_some() {
                self.restored_files.insert(key);
            }
        }
        Ok(())
    }

    /// The file in which rows belong.
    fn path_of_rows(&self, worker: Option<WorkerId>) -> PathBuf {
        match worker {
            Some(worker) => self.target.worker_folders.part_file(worker),
            None => {
                let name = self.target.output_file.as_deref().unwrap_or_default();
                self.target.output.join(name)
            }
        }
    }

    /// Prepares a file of a guest. Unless files are appended, a later file replaces an earlier one.
    fn begin_file(&mut self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            folder_at_its_path(parent, Mode::from_raw_mode(0o777))?;
        }
        let file = open(path)?;
        if self.target.on_conflict != OnConflict::Append {
            file.set_len(0)?;
        }
        self.open = Some((path.to_owned(), file));
        Ok(())
    }

    /// Copies bytes to a place in a file, or skips them if they have no place. Returns whether there were as many.
    fn copy(
        &mut self,
        bytes: &mut impl Read,
        length: u64,
        place: Option<&(PathBuf, u64)>,
    ) -> Result<bool, RestoreError> {
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < length {
            let some = COPY_BYTES.min(length - done);
            buffer.clear();
            let read = bytes.by_ref().take(some).read_to_end(&mut buffer);
            let read = read.map_err(RestoreError::Store)? as u64;
            if let Some((path, offset)) = place {
                let written = self.write(path, offset + done, &buffer);
                written.map_err(|e| failed(path, e))?;
            }
            done += some;
            if read < some {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| open == path);
        if !is_open {
            if let Some(parent) = path.parent() {
                folder_at_its_path(parent, Mode::RWXU)?;
            }
            self.open = Some((path.to_owned(), open(path)?));
        }
        self.open.as_ref().map_or(Ok(()), |(_, file)| file.write_all_at(bytes, offset))
    }
}

fn failed(path: &Path, error: io::Error) -> RestoreError {
    RestoreError::Disk(CommitError::disk("restore", path, error))
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
    at_its_path(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

/// The bytes of a saved group. They end early if an object is missing.
struct SavedBytes<'a> {
    saved: &'a SavedResults,
    note: SavedNote,
    next: u64,
    object: Vec<u8>,
    /// How much of `object` has been read.
    read: usize,
}

impl<'a> SavedBytes<'a> {
    fn new(saved: &'a SavedResults, note: SavedNote) -> Self {
        Self { saved, note, next: 0, object: Vec::new(), read: 0 }
    }
}

impl Read for SavedBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read >= self.object.len() {
            if self.next >= self.note.objects {
                return Ok(0);
            }
            let name = self.saved.object(&self.note.name, self.next);
            let Some(object) = self.saved.objects.read(&name)? else {
                self.next = self.note.objects;
                return Ok(0);
            };
            self.next += 1;
            self.object = object;
            self.read = 0;
        }
        let rest = self.object.get(self.read..).unwrap_or_default();
        let some = rest.len().min(buffer.len());
        buffer[..some].copy_from_slice(&rest[..some]);
        self.read += some;
        Ok(some)
    }
}
