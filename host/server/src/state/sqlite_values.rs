//! Values and rows of SQLite.

use super::StateError;
use super::audit::AuditEntry;
use crate::names::TenantName;
use jiff::Timestamp;
use rusqlite::{Connection, Row, Transaction, params};

/// A time in the database: milliseconds since 1970.
pub(super) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// The time of a column.
pub(super) fn time(millis: i64) -> Result<Timestamp, StateError> {
    Timestamp::from_millisecond(millis).map_err(|error| StateError::Damaged(error.to_string()))
}

/// The time of a column that may be empty.
pub(super) fn optional_time(millis: Option<i64>) -> Result<Option<Timestamp>, StateError> {
    millis.map(time).transpose()
}

/// A value of a column that this program has written.
pub(super) fn parsed<T: TryFrom<String, Error: std::fmt::Display>>(
    text: String,
) -> Result<T, StateError> {
    T::try_from(text).map_err(|error| StateError::Damaged(error.to_string()))
}

/// A value of a column with JSON.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StateError> {
    serde_json::from_str(text).map_err(|error| StateError::Damaged(error.to_string()))
}

/// A value for a column with JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, StateError> {
    serde_json::to_string(value).map_err(|error| StateError::Damaged(error.to_string()))
}

/// The number in a column of integers, which SQLite signs.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number of a column that this program has written.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Adds an entry to the audit.
pub(super) fn note(change: &Transaction<'_>, entry: &AuditEntry) -> Result<(), StateError> {
    let text =
        "INSERT INTO audit (at, tenant, actor, action, target, detail) VALUES (?, ?, ?, ?, ?, ?)";
    let tenant = entry.tenant.as_ref().map(TenantName::as_str);
    let values =
        params![millis(entry.at), tenant, entry.actor, entry.action, entry.target, entry.detail];
    change.prepare_cached(text)?.execute(values)?;
    Ok(())
}

/// Reads the rows of a query.
pub(super) fn rows<T>(
    connection: &Connection,
    query: &str,
    values: impl rusqlite::Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, StateError>,
) -> Result<Vec<T>, StateError> {
    let mut query = connection.prepare_cached(query)?;
    let mut rows = query.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}
