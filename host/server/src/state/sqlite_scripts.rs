//! The table of entry scripts.

use super::StateError;
use super::script::{ScriptDigest, ScriptRecord};
use super::sqlite_values::{millis, parsed, rows, signed, time, unsigned};
use crate::names::TenantName;
use rusqlite::{Connection, Row, Transaction, params};

/// Adds an entry script. Returns false if the tenant has it already.
pub(super) fn add(change: &Transaction<'_>, script: &ScriptRecord) -> Result<bool, StateError> {
    let values = params![
        script.tenant.as_str(),
        script.digest.as_str(),
        script.name,
        signed(script.bytes),
        millis(script.uploaded),
    ];
    let text = "INSERT INTO script VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    Ok(change.execute(text, values)? > 0)
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
