//! Files that could not be read when a job was planned: their places in the plan are kept, for when somebody
//! mends them.

use super::{Journal, JournalError};
use crate::model::{MiniBatch, MiniBatchId, Work};

/// How the keys of these notes begin.
const UNREADABLE: &str = "unreadable ";

/// A file that could not be read, with its mini-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The mini-batch that failed for it.
    pub id: MiniBatchId,
    /// The index of its source.
    pub source: u32,
    /// The file, as a path below that.
    pub file: String,
}

/// Key and value of the note on a mini-batch of a file that cannot be read; none for others.
pub fn unreadable_note(batch: &MiniBatch) -> Option<(String, String)> {
    let Work::Unreadable(bad) = &batch.work else { return None };
    Some((format!("{UNREADABLE}{}", batch.id), format!("{} {}", batch.source, bad.file)))
}

impl Journal {
    /// The files that an earlier plan could not read.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn unreadable(&self) -> Result<Vec<Unreadable>, JournalError> {
        let read = |(id, place): (String, String)| {
            let (source, file) = place.split_once(' ')?;
            let id = MiniBatchId(id.parse().ok()?);
            Some(Unreadable { id, source: source.parse().ok()?, file: file.to_owned() })
        };
        Ok(self.notes(UNREADABLE)?.into_iter().filter_map(read).collect())
    }
}
