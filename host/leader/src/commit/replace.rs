//! Replaces or removes files in the output folder, atomically with a change of the journal. First the new
//! files are written and synced. Then one transaction changes the journal and records which files to rename
//! and which to remove. Then the files are renamed and removed, and finally the record is deleted. If a start
//! finds the record, it continues with the renames and removals. If a start finds new files but no record, it
//! removes the new files.

use super::disk::sync_file_system_of;
use super::error::CommitError;
use crate::fail_point;
use crate::files::remove_tree;
use crate::journal::{Journal, JournalChanges};
use std::fs;
use std::path::{Path, PathBuf};

/// The key of the journal's note on the files to rename and remove.
const REPLACE_KEY: &str = "store.replace";

/// The prefix of the new files' names. A guest's file with such a name is never published.
pub(super) const NEW_PREFIX: &str = ".sandmill-new-";

/// Files that will be replaced or removed.
#[derive(Debug, Default)]
pub(super) struct Replacement {
    /// For each file: the new file's name and the old file's path, both relative to the output
    /// folder. `None` as the name means that the old file is removed.
    pairs: Vec<ReplacedFile>,
}

type ReplacedFile = (Option<String>, String);

impl Replacement {
    /// The path at which to write the file that will replace `old`. `old` is relative to the output folder.
    pub(super) fn new_file_for(&mut self, output: &Path, old: &str) -> PathBuf {
        let new = format!("{NEW_PREFIX}{}", self.pairs.len());
        let path = output.join(&new);
        self.pairs.push((Some(new), old.to_owned()));
        path
    }

    /// Records that `old` will be removed. `old` is relative to the output folder.
    pub(super) fn remove(&mut self, old: String) {
        self.pairs.push((None, old));
    }

    fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Commits the changes together with the record, and carries out the replacement.
    pub(super) fn commit(
        &self,
        mut changes: JournalChanges,
        journal: &mut Journal,
        output: &Path,
    ) -> Result<(), CommitError> {
        if !self.is_empty() {
            fail_point::pass("replacement-synced");
            changes.notes.push(self.note()?);
        }
        if !changes.is_empty() {
            journal.commit(&changes)?;
        }
        fail_point::pass("lost-taken-out");
        carry_out(journal, output)
    }

    /// The record, as a note for the transaction.
    pub(super) fn note(&self) -> Result<(String, Option<String>), CommitError> {
        let value = serde_json::to_string(&self.pairs).map_err(CommitError::Unnoted)?;
        Ok((REPLACE_KEY.to_owned(), Some(value)))
    }
}

/// Carries out what the journal has recorded. If it has recorded nothing, removes leftover new files.
pub(super) fn carry_out(journal: &mut Journal, output: &Path) -> Result<(), CommitError> {
    let Some(note) = journal.noted(REPLACE_KEY)? else { return remove_unrecorded(output) };
    let pairs: Vec<ReplacedFile> = match serde_json::from_str(&note) {
        Ok(pairs) => pairs,
        Err(source) => return Err(CommitError::ReplacementNote { note, source }),
    };
    for (new, old) in pairs {
        let old = output.join(old);
        match new.map(|new| output.join(new)) {
            None => remove_tree(&old).map_err(|e| CommitError::disk("remove", &old, e))?,
            Some(new) if new.symlink_metadata().is_ok() => {
                fs::rename(&new, &old).map_err(|e| CommitError::disk("replace", &old, e))?;
            }
            Some(_) => {}
        }
        fail_point::pass("file-replaced");
    }
    // One `syncfs` covers all folders that contain the files.
    sync_file_system_of(output)?;
    fail_point::pass("files-replaced");
    let notes = vec![(REPLACE_KEY.to_owned(), None)];
    journal.commit(&JournalChanges { notes, ..JournalChanges::default() })?;
    fail_point::pass("replacement-forgotten");
    Ok(())
}

/// Removes new files that the journal does not record.
fn remove_unrecorded(output: &Path) -> Result<(), CommitError> {
    let failed = |e| CommitError::disk("read", output, e);
    for entry in fs::read_dir(output).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(NEW_PREFIX) {
            let path = entry.path();
            remove_tree(&path).map_err(|e| CommitError::disk("remove", &path, e))?;
        }
    }
    Ok(())
}
