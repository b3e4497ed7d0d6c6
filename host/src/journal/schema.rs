//! The tables, and how an entry lies in them.

use super::{Committed, End, Entry};
use crate::model::{FailureKind, ItemCounts, MiniBatchId, Segment, WorkerId};
use rusqlite::{Row, Statement, params};

/// The format of this build, in SQLite's `user_version`. A new database has 0.
pub(super) const VERSION: i64 = 1;

/// Makes the tables. `job` holds the identity and the status under fixed keys.
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
        output_offset INTEGER NOT NULL,
        CHECK ((state = 'succeeded') = (part_offset IS NOT NULL)),
        CHECK ((state = 'failed') = (failure_kind IS NOT NULL))
    ) STRICT;
";

pub(super) const INSERT: &str = "
    INSERT INTO mini_batch VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
";

/// In the order of the output file; those without rows come before those that begin at the same
/// place.
pub(super) const SELECT: &str = "
    SELECT id, attempts, worker, items_total, items_succeeded, items_failed, state, part_offset,
        part_length, part_checksum, part_rows, has_files, failure_kind, failure_message,
        output_offset
    FROM mini_batch ORDER BY output_offset, part_length, id
";

/// Writes one entry. Numbers must have been checked with [`too_large`].
pub(super) fn insert(
    statement: &mut Statement<'_>,
    entry: &Entry,
    output_offset: u64,
) -> rusqlite::Result<usize> {
    let (state, segment, files, kind, message) = match &entry.end {
        End::Succeeded { segment, has_files } => {
            ("succeeded", Some(segment), Some(*has_files), None, None)
        }
        End::Failed { kind, message } => {
            ("failed", None, None, Some(kind.to_string()), Some(message.as_str()))
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
        output_offset.cast_signed(),
    ])
}

/// The first number that does not fit SQLite's integers.
pub(super) fn too_large(entry: &Entry, output_offset: u64) -> Option<(&'static str, u64)> {
    let mut numbers = vec![
        ("its id", entry.id.0),
        ("the number of its items", entry.items.total),
        ("the number of its items that succeeded", entry.items.succeeded),
        ("the number of its items that failed", entry.items.failed),
    ];
    if let End::Succeeded { segment, .. } = &entry.end {
        numbers.push(("its place in the part file", segment.offset));
        numbers.push(("the length of its rows", segment.length));
        numbers.push(("the number of its rows", segment.rows));
        // Past the end of a file that large nothing can follow.
        numbers.push(("its place in the output", output_offset.saturating_add(segment.length)));
    }
    numbers.into_iter().find(|(_, value)| i64::try_from(*value).is_err())
}

/// Reads one row of [`SELECT`].
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Committed> {
    let end = if row.get_ref(6)?.as_str() == Ok("succeeded") {
        let segment = Segment {
            offset: unsigned(row, 7)?,
            length: unsigned(row, 8)?,
            checksum: row.get(9)?,
            rows: unsigned(row, 10)?,
        };
        End::Succeeded { segment, has_files: row.get(11)? }
    } else {
        let kind: String = row.get(12)?;
        let kind = serde_json::from_value::<FailureKind>(serde_json::Value::String(kind));
        // A kind of a later version keeps its message.
        let kind = kind.unwrap_or(FailureKind::HostFault);
        End::Failed { kind, message: row.get(13)? }
    };
    let items = ItemCounts {
        total: unsigned(row, 3)?,
        succeeded: unsigned(row, 4)?,
        failed: unsigned(row, 5)?,
    };
    let worker: Option<u32> = row.get(2)?;
    let entry = Entry {
        id: MiniBatchId(unsigned(row, 0)?),
        attempts: row.get(1)?,
        worker: worker.map(WorkerId),
        items,
        end,
    };
    Ok(Committed { entry, output_offset: unsigned(row, 14)? })
}

fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(index)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}
