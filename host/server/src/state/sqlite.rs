//! The state in a file of SQLite.

use super::audit::{AuditEntry, AuditRecord};
use super::job::{JobFilter, JobRecord};
use super::script::{ScriptDigest, ScriptRecord};
use super::sqlite_values::{
    from_json, millis, note, optional_time, parsed, rows, signed, time, to_json, unsigned,
};
use super::tenant::Tenant;
use super::token::{Scope, Scopes, TokenRecord};
use super::{
    RequestKey, ScriptAdded, ServerState, StateError, Submitted, schema, sqlite_jobs as jobs,
    sqlite_scripts as scripts,
};
use crate::names::{JobId, TenantName, TokenId};
use jiff::Timestamp;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The connections that only read. More would not help: they compute, and wait for nothing.
const READERS: usize = 4;
/// How long to wait for another process that holds the file.
const BUSY: Duration = Duration::from_secs(5);

/// The state of one server in a file.
#[derive(Debug)]
pub(crate) struct SqliteState {
    writer: Mutex<Connection>,
    readers: [Mutex<Connection>; READERS],
}

impl SqliteState {
    /// Opens the file. Creates it if it is missing; then only this user can read it.
    ///
    /// # Errors
    /// If the file cannot be used, or a later version of Sandmill wrote it.
    pub(crate) fn open(file: &Path) -> Result<Self, StateError> {
        let made = OpenOptions::new().create(true).append(true).mode(0o600).open(file);
        made.map_err(|error| StateError::Folder { path: file.display().to_string(), error })?;
        let mut writer = Connection::open(file)?;
        writer.busy_timeout(BUSY)?;
        writer.pragma_update(None, "journal_mode", "wal")?;
        // Each change is on the disk when its request is answered.
        writer.pragma_update(None, "synchronous", "full")?;
        writer.pragma_update(None, "foreign_keys", true)?;
        schema::prepare(&mut writer)?;
        let reader = || -> Result<_, StateError> {
            let reader = Connection::open(file)?;
            reader.busy_timeout(BUSY)?;
            reader.pragma_update(None, "query_only", true)?;
            Ok(Mutex::new(reader))
        };
        let readers = [reader()?, reader()?, reader()?, reader()?];
        Ok(Self { writer: Mutex::new(writer), readers })
    }

    /// A connection that only reads.
    pub(super) fn read(&self) -> MutexGuard<'_, Connection> {
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        free.unwrap_or_else(|| self.readers[0].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a change, all of it or nothing.
    pub(super) fn change<T>(
        &self,
        make: impl FnOnce(&Transaction<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let change = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let made = make(&change)?;
        change.commit()?;
        Ok(made)
    }
}

fn tenant_of(row: &Row<'_>) -> Result<Tenant, StateError> {
    Ok(Tenant {
        name: parsed(row.get("name")?)?,
        weight: row.get("weight")?,
        quotas: from_json(&row.get::<_, String>("quotas")?)?,
        created: time(row.get("created")?)?,
        version: unsigned(row.get("version")?),
    })
}

fn token_of(row: &Row<'_>) -> Result<TokenRecord, StateError> {
    let scopes: String = row.get("scopes")?;
    let scope = |name: &str| {
        let known = Scope::NAMED.iter().find(|(known, _)| *known == name);
        known.map(|(_, scope)| *scope).ok_or_else(|| StateError::Damaged(name.to_owned()))
    };
    let tenant: Option<String> = row.get("tenant")?;
    Ok(TokenRecord {
        id: parsed(row.get("id")?)?,
        hash: row.get("hash")?,
        tenant: tenant.map(parsed).transpose()?,
        scopes: scopes.split_whitespace().map(scope).collect::<Result<Scopes, _>>()?,
        label: row.get("label")?,
        created: time(row.get("created")?)?,
        expires: optional_time(row.get("expires")?)?,
        last_used: optional_time(row.get("last_used")?)?,
        revoked: optional_time(row.get("revoked")?)?,
    })
}

fn audit_of(row: &Row<'_>) -> Result<AuditRecord, StateError> {
    let tenant: Option<String> = row.get("tenant")?;
    Ok(AuditRecord {
        number: row.get("number")?,
        at: time(row.get("at")?)?,
        tenant: tenant.map(parsed).transpose()?,
        actor: row.get("actor")?,
        action: row.get("action")?,
        target: row.get("target")?,
        detail: row.get("detail")?,
    })
}

/// Reads at most one row.
fn one<T>(
    connection: &Connection,
    query: &str,
    value: &str,
    read: impl FnOnce(&Row<'_>) -> Result<T, StateError>,
) -> Result<Option<T>, StateError> {
    let mut query = connection.prepare_cached(query)?;
    let mut rows = query.query([value])?;
    rows.next()?.map(read).transpose()
}

impl ServerState for SqliteState {
    fn add_tenant(&self, tenant: &Tenant, audit: &AuditEntry) -> Result<bool, StateError> {
        self.change(|change| {
            let quotas = to_json(&tenant.quotas)?;
            let text = "INSERT INTO tenant VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
            let (name, created) = (tenant.name.as_str(), millis(tenant.created));
            let version = signed(tenant.version);
            let added =
                change.execute(text, params![name, tenant.weight, quotas, created, version])?;
            if added > 0 {
                note(change, audit)?;
            }
            Ok(added > 0)
        })
    }

    fn tenant(&self, name: &TenantName) -> Result<Option<Tenant>, StateError> {
        one(&self.read(), "SELECT * FROM tenant WHERE name = ?", name.as_str(), tenant_of)
    }

    fn tenants(&self, after: Option<&TenantName>, limit: u32) -> Result<Vec<Tenant>, StateError> {
        let text = "SELECT * FROM tenant WHERE name > ? ORDER BY name LIMIT ?";
        let after = after.map_or("", TenantName::as_str);
        rows(&self.read(), text, params![after, limit], tenant_of)
    }

    fn change_tenant(&self, tenant: &Tenant, audit: &AuditEntry) -> Result<bool, StateError> {
        self.change(|change| {
            let text = "UPDATE tenant SET weight = ?, quotas = ?, version = version + 1 WHERE name = ? AND version = ?";
            let (quotas, version) = (to_json(&tenant.quotas)?, signed(tenant.version));
            let values = params![tenant.weight, quotas, tenant.name.as_str(), version];
            let is_changed = change.execute(text, values)? > 0;
            if is_changed {
                note(change, audit)?;
            }
            Ok(is_changed)
        })
    }

    fn add_token(&self, token: &TokenRecord, audit: &AuditEntry) -> Result<(), StateError> {
        self.change(|change| {
            let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
            let values = params![
                token.id.as_str(),
                token.hash,
                token.tenant.as_ref().map(TenantName::as_str),
                scopes.join(" "),
                token.label,
                millis(token.created),
                token.expires.map(millis),
                token.last_used.map(millis),
                token.revoked.map(millis),
            ];
            change.execute("INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)?;
            note(change, audit)
        })
    }

    fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>, StateError> {
        one(&self.read(), "SELECT * FROM token WHERE id = ?", id.as_str(), token_of)
    }

    fn tokens(
        &self,
        tenant: Option<&TenantName>,
        after: Option<&TokenId>,
        limit: u32,
    ) -> Result<Vec<TokenRecord>, StateError> {
        let text = "SELECT * FROM token WHERE tenant IS ? AND id > ? ORDER BY id LIMIT ?";
        let (tenant, after) = (tenant.map(TenantName::as_str), after.map_or("", TokenId::as_str));
        rows(&self.read(), text, params![tenant, after, limit], token_of)
    }

    fn revoke_token(
        &self,
        id: &TokenId,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StateError> {
        self.change(|change| {
            let text = "UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL";
            if change.execute(text, params![millis(at), id.as_str()])? > 0 {
                note(change, audit)?;
            }
            Ok(())
        })
    }

    fn note_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StateError> {
        self.change(|change| {
            let mut update =
                change.prepare_cached("UPDATE token SET last_used = ? WHERE id = ?")?;
            for (id, at) in uses {
                update.execute(params![millis(*at), id.as_str()])?;
            }
            Ok(())
        })
    }

    fn submit(
        &self,
        job: &JobRecord,
        key: Option<&RequestKey>,
        most_unfinished: Option<u32>,
        audit: &AuditEntry,
    ) -> Result<Submitted, StateError> {
        self.change(|change| {
            let submitted = jobs::submit(change, job, key, most_unfinished)?;
            if matches!(submitted, Submitted::New) {
                note(change, audit)?;
            }
            Ok(submitted)
        })
    }

    fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StateError> {
        jobs::job(&self.read(), id)
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<&JobId>,
        limit: u32,
    ) -> Result<Vec<JobRecord>, StateError> {
        jobs::matching(&self.read(), filter, before, limit)
    }

    fn unfinished(&self) -> Result<Vec<JobRecord>, StateError> {
        jobs::unfinished(&self.read())
    }

    fn change_job(
        &self,
        id: &JobId,
        change_it: &mut dyn FnMut(&mut JobRecord) -> bool,
        audit: Option<&AuditEntry>,
    ) -> Result<Option<JobRecord>, StateError> {
        self.change(|change| {
            let Some(mut job) = jobs::job(change, id)? else { return Ok(None) };
            let before = job.clone();
            if !change_it(&mut job) {
                return Ok(Some(before));
            }
            job.version += 1;
            jobs::replace(change, &job)?;
            audit.map_or(Ok(()), |entry| note(change, entry))?;
            Ok(Some(job))
        })
    }

    fn add_script(
        &self,
        script: &ScriptRecord,
        most: Option<u64>,
        audit: &AuditEntry,
    ) -> Result<ScriptAdded, StateError> {
        self.change(|change| {
            let added = scripts::add(change, script, most)?;
            if matches!(added, ScriptAdded::New) {
                note(change, audit)?;
            }
            Ok(added)
        })
    }

    fn script(
        &self,
        tenant: &TenantName,
        digest: &ScriptDigest,
    ) -> Result<Option<ScriptRecord>, StateError> {
        scripts::script(&self.read(), tenant, digest)
    }

    fn scripts(
        &self,
        tenant: &TenantName,
        after: Option<&ScriptDigest>,
        limit: u32,
    ) -> Result<Vec<ScriptRecord>, StateError> {
        scripts::of_tenant(&self.read(), tenant, after, limit)
    }

    fn unfinished_of(&self, tenant: &TenantName) -> Result<u32, StateError> {
        jobs::unfinished_of(&self.read(), tenant.as_str())
    }

    fn audit(
        &self,
        tenant: Option<&TenantName>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, StateError> {
        let before = before.unwrap_or(i64::MAX);
        let Some(tenant) = tenant else {
            let text = "SELECT * FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?";
            return rows(&self.read(), text, params![before, limit], audit_of);
        };
        let text =
            "SELECT * FROM audit WHERE tenant = ? AND number < ? ORDER BY number DESC LIMIT ?";
        rows(&self.read(), text, params![tenant.as_str(), before, limit], audit_of)
    }
}
