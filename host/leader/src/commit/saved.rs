//! Copies of results in the job's store, for a job whose results are on one machine until the job ends. Another
//! machine that continues the job makes the results again from these copies.
//!
//! Before a group is committed, its rows and files are saved as one text of bytes: a line with an index, then the
//! rows, then the files. The bytes are in several objects, `saved/<number of the record>-<random name>-<0, 1, 2...>`,
//! and a note of the group says how many objects there are. Nothing refers to the copies of a group that was not
//! committed.

use super::error::CommitError;
use super::worker_folders::WorkerFolders;
use super::worker_parts::Parts;
use crate::files::read_range;
use crate::journal::{FileEntry, Journal, JournalChanges, JournalError};
use crate::model::{OnConflict, Segment, WorkerId, random_name};
use crate::opening::regular_at_its_path;
use crate::presence::successors;
use sandmill_commit_log::{LogStore, ObjectCutter, create_own, remove_objects};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The prefix of the notes on saved groups. The number of the group's record follows.
pub(super) const SAVED_PREFIX: &str = "store.saved.";

/// The object that says that the copies are removed: the results are where the job puts them.
const REMOVED: &str = "saved-removed";

/// The copies of a run's results in the job's store.
#[derive(Clone, Debug)]
pub(crate) struct SavedResults {
    pub(super) objects: Arc<dyn LogStore>,
    run: String,
}

/// What the bytes of a saved group are.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedIndex<F> {
    /// For each mini-batch with rows: its id, and the length of its rows in bytes.
    pub(super) rows: Vec<(u64, u64)>,
    /// The files, in the order of the journal.
    pub(super) files: Vec<F>,
}

/// A file of a saved group.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFile {
    /// As in [`FileEntry::source`].
    pub(super) source: String,
    /// As in [`FileEntry::path`].
    pub(super) path: String,
    /// The length of the content in bytes.
    pub(super) length: u64,
}

/// The content of a file that is about to be saved.
struct ContentToSave {
    saved: SavedFile,
    /// Where the content is now.
    file: PathBuf,
    offset: u64,
}

/// A note on a saved group.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedNote {
    pub(super) name: String,
    pub(super) objects: u64,
}

/// A note for the journal.
type Note = (String, Option<String>);

impl SavedResults {
    pub(crate) fn new(objects: Arc<dyn LogStore>, run: &str) -> Self {
        Self { objects, run: run.to_owned() }
    }

    /// The folder of the copies.
    pub(crate) fn folder(&self) -> String {
        format!("{}/saved", self.run)
    }

    /// The name of an object of a group. `name`: that of the group.
    pub(super) fn object(&self, name: &str, index: u64) -> String {
        format!("{}/{name}-{index}", self.folder())
    }

    fn create_object(&self, group: &str, object: u32, bytes: &[u8]) -> Result<(), CommitError> {
        let name = self.object(group, object.into());
        Ok(create_own(&*self.objects, &name, bytes).map_err(JournalError::from)?)
    }

    /// Saves what a group is about to commit. Returns the group's note, unless there is nothing to save.
    pub(super) fn save_group(
        &self,
        changes: &JournalChanges,
        journal: &Journal,
        parts: &mut Parts,
        folders: &WorkerFolders,
    ) -> Result<Option<Note>, CommitError> {
        let entries = changes.entries.iter();
        let rows: Vec<(u64, WorkerId, Segment)> = entries
            .filter_map(|entry| Some((entry.id.0, entry.worker?, entry.end.rows()?)))
            .filter(|(_, _, segment)| segment.length > 0)
            .collect();
        if rows.is_empty() && changes.files.is_empty() {
            return Ok(None);
        }
        let waiting = |entry: &FileEntry| {
            let file = folders.folder_named(&entry.source).join(&entry.path);
            ContentToSave { saved: SavedFile::of(entry), file, offset: 0 }
        };
        let files: Vec<_> = changes.files.iter().map(waiting).collect();
        let mut writer = SavedWriter::begin(self, journal, &rows, &files)?;
        for (_, worker, segment) in &rows {
            let path = folders.part_file(*worker);
            writer.copy(parts.get(*worker)?, &path, segment.offset, segment.length)?;
        }
        files.iter().try_for_each(|file| writer.copy_file(file))?;
        writer.end().map(Some)
    }

    /// Saves files that are published already: those of `init` and `shutdown`. Returns a note, unless there are
    /// none.
    pub(super) fn save_published(
        &self,
        files: &[FileEntry],
        journal: &Journal,
        output: &Path,
        on_conflict: OnConflict,
    ) -> Result<Option<Note>, CommitError> {
        if files.is_empty() {
            return Ok(None);
        }
        let published = |entry: &FileEntry| {
            let file = output.join(&entry.path);
            let mut content =
                ContentToSave { saved: SavedFile::of(entry), file, offset: entry.offset };
            if on_conflict != OnConflict::Append {
                // Another worker may have replaced the file that the entry is about.
                let found = content.file.symlink_metadata();
                let found = found.map_err(|e| CommitError::disk("read", &content.file, e))?;
                content.saved.length = found.len();
            }
            Ok(content)
        };
        let files = files.iter().map(published).collect::<Result<Vec<_>, CommitError>>()?;
        let mut writer = SavedWriter::begin(self, journal, &[], &files)?;
        files.iter().try_for_each(|file| writer.copy_file(file))?;
        writer.end().map(Some)
    }

    /// As [`successors`].
    pub(super) fn successors(&self) -> Option<Vec<u8>> {
        successors(&*self.objects, &self.run)
    }

    /// Whether the copies were removed, because the results are where the job puts them.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) fn are_removed(&self) -> io::Result<bool> {
        Ok(self.objects.read(&format!("{}/{REMOVED}", self.run))?.is_some())
    }

    /// Removes the copies. Call this when the results are where the job puts them.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.objects.make_folder(&self.run)?;
        // First of all: a machine that continues the job must not miss some of the copies.
        let marker = format!("{}/{REMOVED}", self.run);
        create_own(&*self.objects, &marker, b"").map_err(io::Error::other)?;
        let folder = self.folder();
        let names = self.objects.list(&folder)?;
        remove_objects(&*self.objects, &folder, &names)
    }
}

impl SavedFile {
    pub(super) fn of(entry: &FileEntry) -> Self {
        let FileEntry { source, path, length, .. } = entry;
        Self { source: source.clone(), path: path.clone(), length: *length }
    }
}

/// Writes the bytes of a group to objects.
struct SavedWriter<'a> {
    saved: &'a SavedResults,
    /// The number of the group's record.
    number: u64,
    note: SavedNote,
    cutter: ObjectCutter,
}

impl<'a> SavedWriter<'a> {
    /// Writes the index.
    fn begin(
        saved: &'a SavedResults,
        journal: &Journal,
        rows: &[(u64, WorkerId, Segment)],
        files: &[ContentToSave],
    ) -> Result<Self, CommitError> {
        let number = journal.log_position()?.map_or(0, |position| position.number + 1);
        let name = format!("{number:020}-{}", random_name());
        let note = SavedNote { name, objects: 0 };
        let mut writer = Self { saved, number, note, cutter: ObjectCutter::default() };
        let rows = rows.iter().map(|(id, _, segment)| (*id, segment.length)).collect();
        let index = SavedIndex { rows, files: files.iter().map(|file| &file.saved).collect() };
        let mut line = serde_json::to_vec(&index).map_err(CommitError::Unnoted)?;
        line.push(b'\n');
        let made = saved.objects.make_folder(&saved.folder());
        made.map_err(|source| JournalError::no_store(saved.folder(), source))?;
        writer.write(&line)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommitError> {
        let Self { saved, note, cutter, .. } = self;
        cutter.write(bytes, &mut |object, bytes| saved.create_object(&note.name, object, bytes))
    }

    fn copy_file(&mut self, content: &ContentToSave) -> Result<(), CommitError> {
        let ContentToSave { saved, file: path, offset } = content;
        let opened = regular_at_its_path(path);
        let (file, _) = opened.map_err(|e| CommitError::disk("read", path, e))?;
        self.copy(&file, path, *offset, saved.length)
    }

    /// Copies a range of a file. `path` is for messages.
    fn copy(
        &mut self,
        file: &File,
        path: &Path,
        offset: u64,
        length: u64,
    ) -> Result<(), CommitError> {
        let failed = |e| CommitError::disk("read", path, e);
        read_range(file, offset, length, failed, &mut |bytes| self.write(bytes))
    }

    fn end(self) -> Result<Note, CommitError> {
        let Self { saved, number, mut note, cutter } = self;
        let objects =
            cutter.end(&mut |object, bytes| saved.create_object(&note.name, object, bytes))?;
        note.objects = objects.into();
        let note = serde_json::to_string(&note).map_err(CommitError::Unnoted)?;
        Ok((format!("{SAVED_PREFIX}{number:020}"), Some(note)))
    }
}
