//! The SQL table of the registry, and how a version is stored in it.

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Error, Row};
use sandmill_model::{Registered, RegisteredContent};

/// The number of the registry's format, in SQLite's `user_version`. A new database has 0.
pub(super) const FORMAT_VERSION: i64 = 1;
/// Marks a database as a registry, in SQLite's `application_id`: "SMRg".
pub(super) const APPLICATION_ID: i64 = 0x534d_5267;

/// One row is one version. A name and version never change their meaning: a removed version keeps its row,
/// without paths, so that its number is not used again.
pub(super) const CREATE_TABLE: &str = "
    CREATE TABLE registered (
        kind TEXT NOT NULL CHECK (kind IN ('dataset', 'model')),
        name TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (version > 0),
        paths TEXT NOT NULL,
        datastore TEXT,
        digest TEXT,
        folder_digest TEXT,
        description TEXT,
        registered TEXT NOT NULL,
        registered_by TEXT NOT NULL,
        files INTEGER,
        bytes INTEGER,
        newest TEXT,
        PRIMARY KEY (kind, name, version)
    ) STRICT, WITHOUT ROWID;
";

pub(super) const INSERT_VERSION: &str = "
    INSERT INTO registered VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
";

/// The condition for versions that were not removed.
pub(super) const IS_NOT_REMOVED: &str = "paths <> '[]'";

/// Deletes the content of a version, but keeps its row.
pub(super) const REMOVE_VERSION: &str = "
    UPDATE registered SET paths = '[]', datastore = NULL, digest = NULL, folder_digest = NULL,
        description = NULL, registered = ?4, registered_by = ?5, files = NULL, bytes = NULL, newest = NULL
    WHERE kind = ?1 AND name = ?2 AND version = ?3
";

/// All columns that [`read`] reads.
pub(super) const SELECT_VERSIONS: &str = "
    SELECT name, version, paths, datastore, digest, folder_digest, description, registered,
        registered_by, files, bytes, newest
    FROM registered
";

/// Reads a row. The indices are those of the columns in [`SELECT_VERSIONS`].
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Registered> {
    let text = |index: usize| row.get::<_, String>(index);
    let optional_text = |index: usize| row.get::<_, Option<String>>(index);
    let time = |index: usize, text: String| -> rusqlite::Result<Timestamp> {
        text.parse().map_err(|e| Error::FromSqlConversionFailure(index, Type::Text, Box::new(e)))
    };
    let count = |index: usize| row.get::<_, Option<i64>>(index);
    let paths = serde_json::from_str(&text(2)?)
        .map_err(|e| Error::FromSqlConversionFailure(2, Type::Text, Box::new(e)))?;
    let held = match (count(9)?, count(10)?) {
        (Some(files), Some(bytes)) => Some(RegisteredContent {
            files: files.cast_unsigned(),
            bytes: bytes.cast_unsigned(),
            newest: optional_text(11)?.map(|text| time(11, text)).transpose()?,
        }),
        _ => None,
    };
    Ok(Registered {
        name: text(0)?,
        version: row.get::<_, i64>(1)?.cast_unsigned(),
        paths,
        datastore: optional_text(3)?,
        digest: optional_text(4)?,
        folder_digest: optional_text(5)?,
        description: optional_text(6)?,
        registered: time(7, text(7)?)?,
        by: text(8)?,
        held,
    })
}
