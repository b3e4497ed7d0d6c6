//! The tables, and how entries are stored in them.

use super::{Committed, CommittedCounts, EntryOrder, FileEntry, JournalEntry, MiniBatchEnd};
use crate::model::{FailureKind, ItemCounts, MiniBatchId, Segment, WorkerId};
use rusqlite::{Row, Statement, params};

/// The format of this build, stored in SQLite's `user_version`. A new database has 0.
pub(super) const VERSION: i64 = 4;

/// The format before this one, which is the same without receipts. [`Journal::open`](super::Journal::open) adds them.
pub(super) const BEFORE_RECEIPTS: i64 = 3;

/// Creates the tables. `job` holds identity, status, settings and notes by key. `position` is the commit
/// order of mini-batches. The offsets of rows in the output are not stored: they follow from the positions,
/// or from the ids. So if an entry is removed, no other entry changes.
pub(super) const CREATE: &str = "
    CREATE TABLE job (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE mini_batch (
        id INTEGER PRIMARY KEY,
        attempts INTEGER NOT NULL,
        worker INTEGER,
        items_total INTEGER NOT NULL,
        items_succeeded INTEGER NOT NULL,
        items_failed INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
        part_offset INTEGER,
        part_length INTEGER,
        part_checksum INTEGER,
        part_rows INTEGER,
        has_files INTEGER,
        failure_kind TEXT,
        failure_message TEXT,
        position INTEGER NOT NULL,
        stamp INTEGER NOT NULL,
        is_short INTEGER,
        CHECK ((state = 'succeeded') = (part_offset IS NOT NULL)),
        CHECK ((state = 'failed') = (failure_kind IS NOT NULL))
    ) STRICT;
    CREATE TABLE file (
        number INTEGER PRIMARY KEY,
        mini_batch INTEGER,
        source TEXT NOT NULL,
        path TEXT NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL
    ) STRICT;
";

pub(super) const INSERT: &str = "
    INSERT INTO mini_batch
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
";

pub(super) const INSERT_FILE: &str = "
    INSERT INTO file (mini_batch, source, path, offset, length) VALUES (?1, ?2, ?3, ?4, ?5)
";

/// File entries in the order in which they were published.
pub(super) const SELECT_FILES: &str = "
    SELECT mini_batch, source, path, offset, length FROM file ORDER BY number
";

/// Computes all fields of [`CommittedCounts`], and the next position.
pub(super) const COUNT: &str = "
    SELECT COUNT(part_offset), COUNT(failure_kind), COALESCE(SUM(items_total), 0),
        COALESCE(SUM(items_succeeded), 0), COALESCE(SUM(items_failed), 0),
        COALESCE(SUM(part_rows), 0), COALESCE(SUM(part_length), 0),
        COALESCE(MAX(position) + 1, 0)
    FROM mini_batch
";

/// The query for entries. The order must be appended.
const SELECT_BY: &str = "
    SELECT id, attempts, worker, items_total, items_succeeded, items_failed, state, part_offset,
        part_length, part_checksum, part_rows, has_files, failure_kind, failure_message, stamp,
        is_short
    FROM mini_batch ORDER BY
";

/// Selects all entries in this order.
pub(super) fn select(order: EntryOrder) -> String {
    let order = match order {
        EntryOrder::Commit => "position",
        EntryOrder::Id => "id",
        EntryOrder::PartFile => "worker, part_offset",
    };
    format!("{SELECT_BY} {order}")
}

/// Writes one entry. Numbers must have been checked with [`first_too_large`].
pub(super) fn insert(
    statement: &mut Statement<'_>,
    entry: &JournalEntry,
    position: u64,
) -> rusqlite::Result<usize> {
    let (state, segment, is_short, files, kind, message) = match &entry.end {
        MiniBatchEnd::Succeeded { segment, is_short, has_files } => {
            ("succeeded", Some(segment), Some(*is_short), Some(*has_files), None, None)
        }
        MiniBatchEnd::Failed { kind, message } => {
            ("failed", None, None, None, Some(kind.to_string()), Some(message.as_str()))
        }
    };
    statement.execute(params![
        entry.id.0.cast_signed(),
        entry.attempts,
        entry.worker.map(|worker| worker.0),
        entry.items.total.cast_signed(),
        entry.items.succeeded.cast_signed(),
        entry.items.failed.cast_signed(),
        state,
        segment.map(|s| s.offset.cast_signed()),
        segment.map(|s| s.length.cast_signed()),
        segment.map(|s| s.checksum),
        segment.map(|s| s.rows.cast_signed()),
        files,
        kind,
        message,
        position.cast_signed(),
        // A digest: any number is valid, and casts back to the same value.
        entry.stamp.cast_signed(),
        is_short,
    ])
}

pub(super) fn insert_file(
    statement: &mut Statement<'_>,
    file: &FileEntry,
) -> rusqlite::Result<usize> {
    statement.execute(params![
        file.mini_batch.map(|id| id.0.cast_signed()),
        file.source,
        file.path,
        file.offset.cast_signed(),
        file.length.cast_signed(),
    ])
}

/// The first number that does not fit SQLite's integers.
pub(super) fn first_too_large(
    entry: &JournalEntry,
    output_offset: u64,
) -> Option<(&'static str, u64)> {
    let mut numbers = vec![
        ("its id", entry.id.0),
        ("the number of its items", entry.items.total),
        ("the number of its items that succeeded", entry.items.succeeded),
        ("the number of its items that failed", entry.items.failed),
    ];
    if let MiniBatchEnd::Succeeded { segment, .. } = &entry.end {
        numbers.push(("its place in the part file", segment.offset));
        numbers.push(("the length of its rows", segment.length));
        numbers.push(("the number of its rows", segment.rows));
        // The end of the rows must fit too: other rows may follow.
        numbers.push(("its place in the output", output_offset.saturating_add(segment.length)));
    }
    numbers.into_iter().find(|(_, value)| i64::try_from(*value).is_err())
}

/// Reads one row of the query [`select`], by the numbers of its columns. `output_offset` is already known.
pub(super) fn read(row: &Row<'_>, output_offset: u64) -> rusqlite::Result<Committed> {
    let end = if row.get_ref(6)?.as_str() == Ok("succeeded") {
        let segment = Segment {
            offset: unsigned(row, 7)?,
            length: unsigned(row, 8)?,
            checksum: row.get(9)?,
            rows: unsigned(row, 10)?,
        };
        MiniBatchEnd::Succeeded { segment, is_short: row.get(15)?, has_files: row.get(11)? }
    } else {
        let kind: String = row.get(12)?;
        let kind = serde_json::from_value::<FailureKind>(serde_json::Value::String(kind));
        // An unknown kind, from a later version, is read as a host fault. Its message is kept.
        let kind = kind.unwrap_or(FailureKind::HostFault);
        MiniBatchEnd::Failed { kind, message: row.get(13)? }
    };
    let worker: Option<u32> = row.get(2)?;
    // The number is too high: the next worker could not get a higher one.
    if let Some(u32::MAX) = worker {
        return Err(rusqlite::Error::IntegralValueOutOfRange(2, u32::MAX.into()));
    }
    let entry = JournalEntry {
        id: MiniBatchId(unsigned(row, 0)?),
        stamp: row.get::<_, i64>(14)?.cast_unsigned(),
        attempts: row.get(1)?,
        worker: worker.map(WorkerId),
        items: items(row, 3)?,
        end,
    };
    Ok(Committed { entry, output_offset })
}

/// Reads one row of [`SELECT_FILES`].
pub(super) fn read_file(row: &Row<'_>) -> rusqlite::Result<FileEntry> {
    let mini_batch: Option<i64> = row.get(0)?;
    Ok(FileEntry {
        mini_batch: mini_batch.map(|id| MiniBatchId(id.cast_unsigned())),
        source: row.get(1)?,
        path: row.get(2)?,
        offset: unsigned(row, 3)?,
        length: unsigned(row, 4)?,
    })
}

/// Reads the one row of [`COUNT`].
pub(super) fn read_counts(row: &Row<'_>) -> rusqlite::Result<(CommittedCounts, u64)> {
    let counts = CommittedCounts {
        succeeded: unsigned(row, 0)?,
        failed: unsigned(row, 1)?,
        items: items(row, 2)?,
        rows: unsigned(row, 5)?,
        output_length: unsigned(row, 6)?,
    };
    Ok((counts, unsigned(row, 7)?))
}

fn items(row: &Row<'_>, first: usize) -> rusqlite::Result<ItemCounts> {
    Ok(ItemCounts {
        total: unsigned(row, first)?,
        succeeded: unsigned(row, first + 1)?,
        failed: unsigned(row, first + 2)?,
    })
}

fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(index)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}
