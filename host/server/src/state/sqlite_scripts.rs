//! The table of entry scripts.

use super::script::{ScriptDigest, ScriptRecord};
use super::sqlite_values::{millis, parsed, rows, signed, time, unsigned};
use super::{ScriptAdded, StateError};
use crate::names::TenantName;
use rusqlite::{Connection, Row, Transaction, params};

/// Adds an entry script, unless the tenant has it already, or would have more than `most` bytes.
pub(super) fn add(
    change: &Transaction<'_>,
    new: &ScriptRecord,
    most: Option<u64>,
) -> Result<ScriptAdded, StateError> {
    if let Some(found) = script(change, &new.tenant, &new.digest)? {
        return Ok(ScriptAdded::Known(found));
    }
    let tenant = new.tenant.as_str();
    let text = "SELECT coalesce(sum(bytes), 0) FROM script WHERE tenant = ?";
    let used = unsigned(change.query_row(text, [tenant], |row| row.get(0))?);
    if most.is_some_and(|most| used.saturating_add(new.bytes) > most) {
        return Ok(ScriptAdded::TooLarge { used });
    }
    let values =
        params![tenant, new.digest.as_str(), new.name, signed(new.bytes), millis(new.uploaded)];
    change.execute("INSERT INTO script VALUES (?, ?, ?, ?, ?)", values)?;
    Ok(ScriptAdded::New)
}

fn script_of(row: &Row<'_>) -> Result<ScriptRecord, StateError> {
    Ok(ScriptRecord {
        tenant: parsed(row.get("tenant")?)?,
        digest: parsed(row.get("digest")?)?,
        name: row.get("name")?,
        bytes: unsigned(row.get("bytes")?),
        uploaded: time(row.get("uploaded")?)?,
    })
}

/// The tenant's entry script with this digest.
pub(super) fn script(
    connection: &Connection,
    tenant: &TenantName,
    digest: &ScriptDigest,
) -> Result<Option<ScriptRecord>, StateError> {
    let text = "SELECT * FROM script WHERE tenant = ? AND digest = ?";
    let values = params![tenant.as_str(), digest.as_str()];
    Ok(rows(connection, text, values, script_of)?.pop())
}

/// The next entry scripts of a tenant.
pub(super) fn of_tenant(
    connection: &Connection,
    tenant: &TenantName,
    after: Option<&ScriptDigest>,
    limit: u32,
) -> Result<Vec<ScriptRecord>, StateError> {
    let text = "SELECT * FROM script WHERE tenant = ? AND digest > ? ORDER BY digest LIMIT ?";
    let after = after.map_or("", ScriptDigest::as_str);
    rows(connection, text, params![tenant.as_str(), after, limit], script_of)
}
