//! Checks that the output file holds what was appended to it. Before the journal refers to new
//! rows, the committer reads them back and compares them with the workers' checksums. The rows are
//! still in the page cache, because they were written a moment ago. If another program may have
//! written to the file since, the committer reads back the whole file.

use super::error::{CommitError, OutputChange};
use crate::files::{Appender, Checker};
use crate::model::{Segment, WorkerId};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The tail of the output: pieces that were appended, but are not yet in the journal.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedTail {
    /// In file order. Each piece is a worker's rows, or the header line.
    pieces: Vec<(Option<WorkerId>, Segment)>,
    /// How many pieces have been read back.
    confirmed: usize,
}

impl UnconfirmedTail {
    /// Records that a worker's rows were appended.
    pub(super) fn add(&mut self, worker: WorkerId, segments: &[Segment]) {
        self.pieces.extend(segments.iter().map(|segment| (Some(worker), *segment)));
    }

    /// Records that the header was written. It is always the first piece.
    pub(super) fn add_header(&mut self, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let checksum = crc32fast::hash(bytes);
        self.pieces.push((None, Segment { offset: 0, length, checksum, rows: 0 }));
    }

    /// Reads back the pieces that have not been read back yet. Fails if the file has other content, or cannot
    /// be read.
    pub(super) fn confirm(&mut self, appender: &Appender) -> Result<(), CommitError> {
        check_in_place(appender)?;
        let mut checker = checker(appender)?;
        let new = self.pieces.get(self.confirmed..).unwrap_or_default();
        let bytes: u64 = new.iter().map(|(_, segment)| segment.length).sum();
        let mut offset = appender.len().saturating_sub(bytes);
        for (worker, segment) in new {
            check_segment(&mut checker, appender, offset, *worker, segment)?;
            offset += segment.length;
        }
        self.confirmed = self.pieces.len();
        Ok(())
    }

    /// Forgets which pieces were read back, because another program may have changed them since.
    pub(super) fn mark_suspect(&mut self) {
        self.confirmed = 0;
    }

    /// Forgets all pieces: the journal has them now, or they were removed.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Fails unless the output's name still leads to this file, and the file has the length that was
/// written.
pub(super) fn check_in_place(appender: &Appender) -> Result<Metadata, CommitError> {
    let metadata = appender.file().metadata().map_err(|e| failed(appender, e))?;
    let named = appender.path().symlink_metadata();
    if !named.is_ok_and(|named| (named.dev(), named.ino()) == (metadata.dev(), metadata.ino())) {
        return Err(output_changed(appender, OutputChange::Replaced));
    }
    let found = metadata.len();
    let written = appender.len();
    if found != written {
        return Err(output_changed(appender, OutputChange::Length { found, written }));
    }
    Ok(metadata)
}

pub(super) fn checker(appender: &Appender) -> Result<Checker<'_>, CommitError> {
    Checker::new(appender.file()).map_err(|e| failed(appender, e))
}

/// Fails unless the output holds the segment at this position.
pub(super) fn check_segment(
    checker: &mut Checker<'_>,
    appender: &Appender,
    offset: u64,
    worker: Option<WorkerId>,
    segment: &Segment,
) -> Result<(), CommitError> {
    let holds = checker.holds(offset, segment).map_err(|e| failed(appender, e))?;
    if holds {
        return Ok(());
    }
    let end = offset + segment.length;
    Err(output_changed(appender, OutputChange::Bytes { from: offset, end, worker }))
}

/// The error for an output file that does not hold what was written to it.
pub(super) fn output_changed(appender: &Appender, change: OutputChange) -> CommitError {
    CommitError::OutputChanged { path: appender.path().to_owned(), change }
}

fn failed(appender: &Appender, error: io::Error) -> CommitError {
    CommitError::disk("read", appender.path(), error)
}
