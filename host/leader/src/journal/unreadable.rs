//! Files that could not be read when a job was planned. The journal keeps the numbers of their
//! mini-batches, because the user may repair the files.

use super::{Journal, JournalError};
use crate::model::{MiniBatch, MiniBatchId, MiniBatchWork};

/// The prefix of the keys of notes on unreadable files.
const UNREADABLE_PREFIX: &str = "unreadable ";

/// A file that could not be read, with its mini-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFile {
    /// The mini-batch that failed because of the file.
    pub id: MiniBatchId,
    /// The index of the file's source.
    pub source: u32,
    /// The file, as a path relative to that source.
    pub file: String,
}

/// The key and value of the note about an unreadable file's mini-batch. `None` for other mini-batches.
pub fn unreadable_note(batch: &MiniBatch) -> Option<(String, String)> {
    let MiniBatchWork::Unreadable(bad) = &batch.work else { return None };
    Some((format!("{UNREADABLE_PREFIX}{}", batch.id), format!("{} {}", batch.source, bad.file)))
}

impl Journal {
    /// The files that an earlier run could not read.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn unreadable(&self) -> Result<Vec<UnreadableFile>, JournalError> {
        let read = |(id, note): (String, String)| {
            let (source, file) = note.split_once(' ')?;
            let id = MiniBatchId(id.parse().ok()?);
            Some(UnreadableFile { id, source: source.parse().ok()?, file: file.to_owned() })
        };
        Ok(self.notes(UNREADABLE_PREFIX)?.into_iter().filter_map(read).collect())
    }
}
