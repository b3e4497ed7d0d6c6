//! Whether the output file holds what was appended to it: that is read back and held against the checksums
//! that the workers took of their rows, before the journal knows of it. By then it was written a moment ago, and
//! need not come from the disk. Where somebody else has written to it since, all of it is read back once more.

use super::error::{Change, CommitError};
use crate::files::{Appender, Checker};
use crate::model::{Segment, WorkerId};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The end of the output: what was appended and the journal does not know yet.
#[derive(Debug, Default)]
pub(super) struct Appended {
    /// In the order of the file. A worker's rows, or the header line.
    pieces: Vec<(Option<WorkerId>, Segment)>,
    /// How many of them were read back.
    confirmed: usize,
}

impl Appended {
    /// A worker's rows were appended.
    pub(super) fn add(&mut self, worker: WorkerId, segments: &[Segment]) {
        self.pieces.extend(segments.iter().map(|segment| (Some(worker), *segment)));
    }

    /// The header was written, which is the first of all.
    pub(super) fn add_header(&mut self, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let checksum = crc32fast::hash(bytes);
        self.pieces.push((None, Segment { offset: 0, length, checksum, rows: 0 }));
    }

    /// Reads back what of it was not read back yet. Fails if the file is not what it should be, or cannot be read.
    pub(super) fn confirm(&mut self, appender: &Appender) -> Result<(), CommitError> {
        in_place(appender)?;
        let mut checker = checker(appender)?;
        let new = self.pieces.get(self.confirmed..).unwrap_or_default();
        let bytes: u64 = new.iter().map(|(_, segment)| segment.length).sum();
        let mut at = appender.len().saturating_sub(bytes);
        for (worker, segment) in new {
            hold(&mut checker, appender, at, *worker, segment)?;
            at += segment.length;
        }
        self.confirmed = self.pieces.len();
        Ok(())
    }

    /// Somebody else may have written to the file: what was read back counts no more.
    pub(super) fn doubt(&mut self) {
        self.confirmed = 0;
    }

    /// The journal knows of it, or it is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Fails unless the output is still the file of its name, and as long as what was written.
pub(super) fn in_place(appender: &Appender) -> Result<Metadata, CommitError> {
    let metadata = appender.file().metadata().map_err(|e| failed(appender, e))?;
    let named = appender.path().symlink_metadata();
    if !named.is_ok_and(|named| (named.dev(), named.ino()) == (metadata.dev(), metadata.ino())) {
        return Err(changed(appender, Change::Replaced));
    }
    let found = metadata.len();
    let written = appender.len();
    if found != written {
        return Err(changed(appender, Change::Length { found, written }));
    }
    Ok(metadata)
}

pub(super) fn checker(appender: &Appender) -> Result<Checker<'_>, CommitError> {
    Checker::new(appender.file()).map_err(|e| failed(appender, e))
}

/// Fails unless the output holds the segment at a place.
pub(super) fn hold(
    checker: &mut Checker<'_>,
    appender: &Appender,
    at: u64,
    worker: Option<WorkerId>,
    segment: &Segment,
) -> Result<(), CommitError> {
    let holds = checker.holds(at, segment).map_err(|e| failed(appender, e))?;
    if holds {
        return Ok(());
    }
    let end = at + segment.length;
    Err(changed(appender, Change::Bytes { from: at, end, worker }))
}

pub(super) fn changed(appender: &Appender, change: Change) -> CommitError {
    CommitError::OutputChanged { path: appender.path().to_owned(), change }
}

fn failed(appender: &Appender, error: io::Error) -> CommitError {
    CommitError::disk("read", appender.path(), error)
}
