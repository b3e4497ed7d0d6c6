//! Putting new files in the place of old ones in the output folder, or nothing, together with a change
//! of the journal: the new ones are written and on the disk, then one transaction changes the journal
//! and notes what is to be renamed and removed, then that is done, then the note goes. Whoever finds the
//! note goes on from there; whoever finds new files without it removes them.

use super::disk::sync_around;
use super::error::CommitError;
use crate::fail_point;
use crate::files::remove_tree;
use crate::journal::{Changes, Journal};
use std::fs;
use std::path::{Path, PathBuf};

/// The journal's note of what is to be renamed and removed.
const REPLACE: &str = "store.replace";

/// How the new files' names begin. No guest's file is published under such a name.
pub(super) const NEW: &str = ".sandmill-new-";

/// Files that are about to take the places of others, or only to go.
#[derive(Debug, Default)]
pub(super) struct Replacement {
    /// Names of new files, if there are any, and of those whose places they take, below the output folder.
    pairs: Vec<Pair>,
}

type Pair = (Option<String>, String);

impl Replacement {
    /// Where to write what replaces `old`, a path below the output folder.
    pub(super) fn place(&mut self, output: &Path, old: &str) -> PathBuf {
        let new = format!("{NEW}{}", self.pairs.len());
        let path = output.join(&new);
        self.pairs.push((Some(new), old.to_owned()));
        path
    }

    /// Has nothing take the place of `old`, a path below the output folder.
    pub(super) fn remove(&mut self, old: String) {
        self.pairs.push((None, old));
    }

    fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Commits changes together with the renaming, and carries that out.
    pub(super) fn commit(
        &self,
        mut changes: Changes,
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

    /// What the transaction has to note.
    pub(super) fn note(&self) -> Result<(String, Option<String>), CommitError> {
        let value = serde_json::to_string(&self.pairs).map_err(CommitError::Unnoted)?;
        Ok((REPLACE.to_owned(), Some(value)))
    }
}

/// Finishes what the journal has noted, and removes what it has not.
pub(super) fn carry_out(journal: &mut Journal, output: &Path) -> Result<(), CommitError> {
    let Some(note) = journal.noted(REPLACE)? else { return remove_stale(output) };
    let pairs: Vec<Pair> = match serde_json::from_str(&note) {
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
    // One call for all folders that files lie in.
    sync_around(output)?;
    fail_point::pass("files-replaced");
    let notes = vec![(REPLACE.to_owned(), None)];
    journal.commit(&Changes { notes, ..Changes::default() })?;
    fail_point::pass("replacement-forgotten");
    Ok(())
}

fn remove_stale(output: &Path) -> Result<(), CommitError> {
    let failed = |e| CommitError::disk("look into", output, e);
    for entry in fs::read_dir(output).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(NEW) {
            let path = entry.path();
            remove_tree(&path).map_err(|e| CommitError::disk("remove", &path, e))?;
        }
    }
    Ok(())
}
