//! The output file: its order, its header, and how much of it is in the journal.

use super::confirm::{UnconfirmedTail, check_in_place};
use super::error::CommitError;
use super::worker_parts::Parts;
use crate::fail_point::{self, Unsynced};
use crate::files::{Appender, OutputError};
use crate::journal::JournalEntry;
use crate::model::{MiniBatchId, Segment, WorkerId};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// The key of the journal's note with a [`mark`] of the output.
pub(super) const SYNCED_KEY: &str = "store.synced";

/// The key of the journal's note on the header: see `HeaderColumns::note`.
pub(super) const HEADER_KEY: &str = "store.header";

/// Where the rows of a mini-batch are. `None` if it has none.
pub(super) type CommittedRows = Option<(WorkerId, Segment)>;

/// The output file that rows are appended to.
#[derive(Debug)]
pub(super) struct RowsOutput {
    pub(super) appender: Appender,
    /// The rows that are held back, if the output is in the order of mini-batches.
    pub(super) held: Option<HeldRows>,
    /// How many bytes of the file the journal knows.
    journaled_length: u64,
    /// The pieces that were appended after these bytes.
    appended: UnconfirmedTail,
    /// The file's modification time after our last write.
    written_at: Option<SystemTime>,
    /// Whether the file's modification time has changed during a sync. Either another program wrote to the
    /// file, or the file system itself set the time.
    doubtful: bool,
}

/// Rows that wait for mini-batches with lower ids.
#[derive(Debug, Default)]
pub(super) struct HeldRows {
    /// The lowest id whose mini-batch has not ended.
    pub(super) next: u64,
    /// Mini-batches with higher ids that have ended.
    pub(super) waiting: BTreeMap<u64, CommittedRows>,
}

impl RowsOutput {
    pub(super) fn new(appender: Appender, held: Option<HeldRows>) -> Self {
        let journaled_length = appender.len();
        let appended = UnconfirmedTail::default();
        let mut rows =
            Self { appender, held, journaled_length, appended, written_at: None, doubtful: false };
        rows.note_time();
        rows
    }

    /// Whether the file is unchanged since our last write. Fails if its name leads to another file, or its
    /// length is wrong.
    pub(super) fn is_untouched(&self) -> Result<bool, CommitError> {
        Ok(check_in_place(&self.appender)?.modified().ok() == self.written_at)
    }

    /// Records the file's current modification time as the time of our last write.
    pub(super) fn note_time(&mut self) {
        self.written_at = self.appender.file().metadata().and_then(|found| found.modified()).ok();
    }

    /// Call this when another program has written to the file. Bytes that the journal does not know yet will
    /// be read back again.
    pub(super) fn mark_suspect(&mut self) {
        self.note_time();
        self.appended.mark_suspect();
    }

    /// Whether rows are appended as they arrive, so that none stay in the part files.
    pub(super) fn takes_all(&self) -> bool {
        self.held.is_none()
    }

    /// Whether the rows of a mini-batch wait in a part file for lower ids.
    pub(super) fn holds_back(&self, id: MiniBatchId) -> bool {
        self.held.as_ref().is_some_and(|held| held.waiting.contains_key(&id.0))
    }

    /// Writes the header into the empty file.
    pub(super) fn write_header(&mut self, bytes: &[u8]) -> Result<(), CommitError> {
        self.appended.add_header(bytes);
        Ok(self.appender.write_at(bytes, 0)?)
    }

    /// Appends the rows that may be appended now. The entries are sorted by worker.
    pub(super) fn append(
        &mut self,
        entries: &[JournalEntry],
        parts: &mut Parts,
    ) -> Result<(), CommitError> {
        let committed = entries.iter().map(|entry| (entry.id.0, committed_rows(entry)));
        let ready: Vec<_> = match &mut self.held {
            None => committed.filter_map(|(_, rows)| rows).collect(),
            Some(held) => {
                held.waiting.extend(committed);
                held.ready().collect()
            }
        };
        self.append_all(&ready, parts)
    }

    /// Appends rows before their commit, and reads them back.
    pub(super) fn copy(
        &mut self,
        entries: &[JournalEntry],
        parts: &mut Parts,
    ) -> Result<(), CommitError> {
        self.append(entries, parts)?;
        self.note_time();
        self.appended.confirm(&self.appender)
    }

    /// Appends the rows that are held back, because the mini-batches that they wait for will not
    /// end.
    pub(super) fn append_held(&mut self, parts: &mut Parts) -> Result<(), CommitError> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let held: Vec<_> = std::mem::take(&mut held.waiting).into_values().flatten().collect();
        self.append_all(&held, parts)
    }

    fn append_all(
        &mut self,
        rows: &[(WorkerId, Segment)],
        parts: &mut Parts,
    ) -> Result<(), CommitError> {
        for same in rows.chunk_by(|a, b| a.0 == b.0) {
            let segments: Vec<_> = same.iter().map(|(_, segment)| *segment).collect();
            let part = parts.get(same[0].0)?;
            self.appender.append_all(part, &segments)?;
            self.appended.add(same[0].0, &segments);
            fail_point::pass_with("rows-appending", || self.unsynced(parts));
        }
        Ok(())
    }

    /// Whether the output holds anything that is not in the journal.
    pub(super) fn is_ahead(&self) -> bool {
        self.appender.len() > self.journaled_length
    }

    /// Whether the output holds anything that may not be synced.
    pub(super) fn has_grown(&self) -> bool {
        self.appender.len() > self.appender.synced()
    }

    /// Call this after a commit. If it `has_succeeded`, the journal now records everything that was appended.
    /// Otherwise, this removes the appended rows; if the removal fails, the next start removes them.
    pub(super) fn journaled(&mut self, has_succeeded: bool) {
        self.appended.clear();
        if has_succeeded {
            self.journaled_length = self.appender.len();
        } else {
            let _ = self.appender.truncate(self.journaled_length);
        }
    }

    /// Whether the whole file must be read back before the job can complete.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Reads back what was appended, syncs the output, and returns the note for the journal.
    pub(super) fn sync(&mut self) -> Result<(String, Option<String>), CommitError> {
        self.sync_by(Appender::sync)
    }

    fn sync_by(
        &mut self,
        sync: impl FnOnce(&mut Appender) -> Result<(), OutputError>,
    ) -> Result<(String, Option<String>), CommitError> {
        self.note_time();
        let read_back = self.written_at;
        self.appended.confirm(&self.appender)?;
        sync(&mut self.appender)?;
        // Some file systems set the modification time only now.
        self.note_time();
        self.doubtful |= self.written_at != read_back;
        let trusted = if self.doubtful { 0 } else { self.appender.len() };
        let mark = mark(self.appender.file(), trusted);
        let mark = mark.map_err(|e| CommitError::disk("inspect", self.path(), e))?;
        Ok((SYNCED_KEY.to_owned(), Some(mark)))
    }

    pub(super) fn path(&self) -> &Path {
        self.appender.path()
    }

    /// What a power failure could lose.
    pub(super) fn unsynced(&self, parts: &Parts) -> Vec<Unsynced> {
        let mut unsynced = parts.unsynced();
        unsynced.push((self.path().to_owned(), self.appender.synced()));
        unsynced
    }
}

impl HeldRows {
    /// Removes and returns the rows that need not wait any longer.
    fn ready(&mut self) -> impl Iterator<Item = (WorkerId, Segment)> {
        let from = self.next;
        while self.waiting.contains_key(&self.next) {
            self.next += 1;
        }
        let later = self.waiting.split_off(&self.next);
        let ready = std::mem::replace(&mut self.waiting, later);
        debug_assert!(ready.keys().next().is_none_or(|first| *first == from));
        ready.into_values().flatten()
    }
}

/// A mark, which records that the file is correct up to `length`. A mark is valid until the file is written
/// to again.
pub(super) fn mark(file: &File, length: u64) -> std::io::Result<String> {
    let found = file.metadata()?;
    Ok(format!("{length} {} {}.{:09}", found.ino(), found.mtime(), found.mtime_nsec()))
}

/// How many bytes of the file are correct according to a mark. Zero if any program may have written to the
/// file since: also this program, if it was killed before it could record a new mark.
pub(super) fn trusted_length(mark: Option<&str>, file: &File) -> u64 {
    let length: Option<u64> = mark.and_then(|mark| mark.split(' ').next()?.parse().ok());
    let trusted = length
        .filter(|length| self::mark(file, *length).is_ok_and(|now| Some(now.as_str()) == mark));
    trusted.map_or(0, |length| length.min(file.metadata().map_or(0, |found| found.len())))
}

fn committed_rows(entry: &JournalEntry) -> CommittedRows {
    entry.worker.zip(entry.end.rows())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;
    use std::thread::sleep;
    use std::time::Duration;

    /// If another program writes to the output during the sync, after the output was read back, its write is
    /// not taken for our own.
    #[test]
    fn a_change_during_the_sync_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.txt");
        let mut rows = RowsOutput::new(Appender::create(&path).unwrap(), None);
        let appended = |rows: &mut RowsOutput, tampers: bool| {
            // Older kernels advance a file's modification time only every few milliseconds.
            sleep(Duration::from_millis(20));
            rows.write_header(b"header\n").unwrap();
            sleep(Duration::from_millis(20));
            let (_, mark) = rows
                .sync_by(|appender| {
                    if tampers {
                        let file = OpenOptions::new().write(true).open(&path).unwrap();
                        file.write_all_at(b"H", 0).unwrap();
                    }
                    appender.sync()
                })
                .unwrap();
            (rows.is_doubtful(), mark.unwrap().split(' ').next().unwrap().to_owned())
        };
        assert_eq!(appended(&mut rows, false), (false, "7".to_owned()));
        assert_eq!(appended(&mut rows, true), (true, "0".to_owned()));
        assert_eq!(appended(&mut rows, false), (true, "0".to_owned()), "until the end");
    }
}
