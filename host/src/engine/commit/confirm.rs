//! Whether the output file holds what was appended to it: that is read back and held against the checksums
//! that the workers took of their rows, before the journal knows of it. By then it was written a moment ago, and
//! need not come from the disk. Where somebody else has written to it since, all of it is read back once more.

use super::disk::machine;
use super::header::Top;
use super::rows::Rows;
use super::settle::begins_with;
use crate::journal::{Committed, Journal, Order};
use crate::model::{Segment, WorkerId};
use crate::output::{Appender, Checker};
use std::fs::Metadata;
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
        let (length, checksum) = (bytes.len() as u64, crc32fast::hash(bytes));
        self.pieces.push((None, Segment { offset: 0, length, checksum, rows: 0 }));
    }

    /// Reads back what of it was not read back yet. An error is for people: the file is not what it should be, or
    /// cannot be read.
    pub(super) fn confirm(&mut self, appender: &Appender) -> Result<(), String> {
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

/// Fails, in words, unless the output is still the file of its name, and as long as what was written.
pub(super) fn in_place(appender: &Appender) -> Result<Metadata, String> {
    let metadata = appender.file().metadata().map_err(|e| machine("read", appender.path(), &e))?;
    let named = appender.path().symlink_metadata();
    if !named.is_ok_and(|named| (named.dev(), named.ino()) == (metadata.dev(), metadata.ino())) {
        return Err(told(appender, "was removed, renamed or replaced while the job ran"));
    }
    let (found, written) = (metadata.len(), appender.len());
    if found != written {
        return Err(told(appender, &format!("has {found} bytes, and {written} were written")));
    }
    Ok(metadata)
}

/// Reads back all that the journal puts into the output: what it begins with, then rows. An error as above.
pub(super) fn confirm_all(
    rows: &Rows,
    journal: &Journal,
    header: Option<&Top>,
) -> Result<(), String> {
    let appender = &rows.appender;
    let header = header.map_or(&[][..], |top| &top.bytes);
    let start = header.len() as u64;
    if !begins_with(appender.file(), header) {
        return Err(told(appender, "does not begin with its header any more"));
    }
    let mut checker = checker(appender)?;
    let (order, last) = match &rows.held {
        None => (Order::Commit, u64::MAX),
        Some(held) => (Order::Id, held.next),
    };
    let mut result = Ok(());
    let visit = |Committed { entry, output_offset }: Committed| {
        if let (Some(segment), true) = (entry.end.rows(), entry.id.0 < last && result.is_ok()) {
            result = hold(&mut checker, appender, start + output_offset, entry.worker, &segment);
        }
    };
    journal.for_each(order, visit).map_err(|e| e.to_string())?;
    result
}

fn checker(appender: &Appender) -> Result<Checker<'_>, String> {
    Checker::new(appender.file()).map_err(|e| machine("read", appender.path(), &e))
}

/// Fails, in words, unless the output holds the segment at a place.
pub(super) fn hold(
    checker: &mut Checker<'_>,
    appender: &Appender,
    at: u64,
    worker: Option<WorkerId>,
    segment: &Segment,
) -> Result<(), String> {
    let holds = checker.holds(at, segment).map_err(|e| machine("read", appender.path(), &e))?;
    if holds {
        return Ok(());
    }
    let end = at + segment.length;
    let whose = match worker {
        Some(worker) => format!("the rows that {worker} reported"),
        None => "what was written there".to_owned(),
    };
    Err(told(appender, &format!("holds other bytes from {at} up to {end} than {whose}")))
}

fn told(appender: &Appender, what: &str) -> String {
    format!(
        "the output file {} {what}: another program wrote to it, the disk does not keep what it is \
         given, or a worker process was taken over. See to that, then take the job up again: rows that \
         are not in the output as they were committed are copied there again, or made again",
        appender.path().display()
    )
}
