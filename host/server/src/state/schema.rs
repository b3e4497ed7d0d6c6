//! The tables of the state, and how older formats become newer ones.

use super::StateError;
use rusqlite::Connection;

/// The newest format that this version reads and writes. SQLite keeps it in `user_version`.
const FORMAT: i64 = 1;

/// The steps from each format to the next one. The first step makes the tables.
const STEPS: [&str; 1] = ["
    CREATE TABLE tenant (
        name TEXT PRIMARY KEY, weight INTEGER NOT NULL, quotas TEXT NOT NULL, created INTEGER NOT NULL, version INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE token (
        id TEXT PRIMARY KEY, hash BLOB NOT NULL, tenant TEXT REFERENCES tenant, scopes TEXT NOT NULL, label TEXT NOT NULL,
        created INTEGER NOT NULL, expires INTEGER, last_used INTEGER, revoked INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX token_by_tenant ON token (tenant, id);
    CREATE TABLE job (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenant, name TEXT NOT NULL, phase TEXT NOT NULL, wish TEXT NOT NULL,
        priority INTEGER NOT NULL, labels TEXT NOT NULL, script TEXT, needs TEXT NOT NULL, submitted_by TEXT NOT NULL,
        submitted INTEGER NOT NULL, began INTEGER, ended INTEGER, reason TEXT NOT NULL, starts INTEGER NOT NULL,
        losses INTEGER NOT NULL, earlier_run TEXT NOT NULL, counts TEXT NOT NULL, version INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX job_by_tenant ON job (tenant, id);
    CREATE INDEX unfinished_job ON job (id) WHERE phase IN ('queued', 'running', 'paused');
    CREATE INDEX unfinished_job_of_tenant ON job (tenant) WHERE phase IN ('queued', 'running', 'paused');
    CREATE TABLE request (
        tenant TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, job TEXT NOT NULL REFERENCES job,
        PRIMARY KEY (tenant, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE script (
        tenant TEXT NOT NULL REFERENCES tenant, digest TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL,
        uploaded INTEGER NOT NULL, PRIMARY KEY (tenant, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, tenant TEXT, actor TEXT NOT NULL, action TEXT NOT NULL,
        target TEXT NOT NULL, detail TEXT NOT NULL
    ) STRICT;
    CREATE INDEX audit_of_tenant ON audit (tenant, number);
"];

/// Brings the tables into the newest format.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), StateError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > FORMAT {
        return Err(StateError::NewerFormat { found, known: FORMAT });
    }
    let change = connection.transaction()?;
    for (format, step) in (0..).zip(STEPS) {
        if format >= found {
            change.execute_batch(step)?;
        }
    }
    change.pragma_update(None, "user_version", FORMAT)?;
    change.commit()?;
    Ok(())
}
