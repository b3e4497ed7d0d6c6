//! The state of a server: tenants, tokens, jobs, entry scripts and what was done by whom. Everything that a tenant sees of
//! a job beyond that is in the job's directory.
//!
//! - `job`, `tenant`, `token`, `script`, `audit`: the records;
//! - `sqlite`: the state in one file, with `sqlite_jobs`, `sqlite_scripts` and `sqlite_values`; `schema`: its tables.

mod audit;
mod job;
mod schema;
mod script;
mod sqlite;
mod sqlite_jobs;
mod sqlite_scripts;
mod sqlite_values;
mod tenant;
mod token;

pub(crate) use audit::{AuditEntry, AuditRecord};
pub use job::WorkerNeeds;
pub(crate) use job::{JobCounts, JobFilter, JobPhase, JobRecord, JobWish};
pub(crate) use script::{ScriptDigest, ScriptRecord};
pub(crate) use sqlite::SqliteState;
pub(crate) use tenant::{Quotas, Tenant};
pub(crate) use token::{Scope, Scopes, TokenRecord};

use crate::names::{JobId, TenantName, TokenId};
use jiff::Timestamp;

/// Why the state could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The database failed.
    #[error("the server's state: {0}")]
    Database(#[from] rusqlite::Error),
    /// The file has a format that this version does not know.
    #[error(
        "the server's state has the format {found}, and this version of Sandmill reads formats up to {known}: use the version \
         that wrote it, or a later one"
    )]
    NewerFormat {
        /// The format of the file.
        found: i64,
        /// The newest format that this version reads.
        known: i64,
    },
    /// A value in the database is not what this program writes.
    #[error("the server's state has a value that it cannot have: {0}")]
    Damaged(String),
    /// The state's folder cannot be used.
    #[error("{path}: {error}")]
    Folder {
        /// The folder or file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

/// What became of an entry script that was uploaded.
#[derive(Debug)]
pub(crate) enum ScriptAdded {
    /// It is new.
    New,
    /// The tenant has it already.
    Known(ScriptRecord),
    /// The tenant may not upload so much.
    TooLarge {
        /// The bytes of its entry scripts so far.
        used: u64,
    },
}

/// What became of a submission.
#[derive(Debug)]
pub(crate) enum Submitted {
    /// The job is new.
    New,
    /// The same request had submitted this job before.
    Earlier(Box<JobRecord>),
    /// Another request had used the same key.
    OtherRequest,
    /// The tenant has as many unfinished jobs as it may have.
    TooMany {
        /// The number of its unfinished jobs.
        unfinished: u32,
    },
}

/// The key of a request that may be repeated, and the digest of what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    /// The text of `Idempotency-Key`.
    pub(crate) key: String,
    /// The SHA-256 of the request.
    pub(crate) digest: [u8; 32],
}

/// The state of a server. Several threads use it. Each change is durable when its method returns, and stands beside its
/// entry in the audit, or not at all.
pub(crate) trait ServerState: Send + Sync {
    /// Adds a tenant. Returns false if there is one of this name.
    ///
    /// # Errors
    /// If the database fails, as for all methods.
    fn add_tenant(&self, tenant: &Tenant, audit: &AuditEntry) -> Result<bool, StateError>;

    /// The tenant of this name.
    ///
    /// # Errors
    /// If the database fails.
    fn tenant(&self, name: &TenantName) -> Result<Option<Tenant>, StateError>;

    /// The next tenants in the order of their names.
    ///
    /// # Errors
    /// If the database fails.
    fn tenants(&self, after: Option<&TenantName>, limit: u32) -> Result<Vec<Tenant>, StateError>;

    /// Replaces the weight and quotas of a tenant that has this version. Returns false if the tenant has another version.
    ///
    /// # Errors
    /// If the database fails.
    fn change_tenant(&self, tenant: &Tenant, audit: &AuditEntry) -> Result<bool, StateError>;

    /// Adds a token.
    ///
    /// # Errors
    /// If the database fails.
    fn add_token(&self, token: &TokenRecord, audit: &AuditEntry) -> Result<(), StateError>;

    /// The token with this id, also if it no longer counts.
    ///
    /// # Errors
    /// If the database fails.
    fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>, StateError>;

    /// The next tokens of a tenant, or those of operators, in the order of their ids.
    ///
    /// # Errors
    /// If the database fails.
    fn tokens(
        &self,
        tenant: Option<&TenantName>,
        after: Option<&TokenId>,
        limit: u32,
    ) -> Result<Vec<TokenRecord>, StateError>;

    /// Revokes a token. Has no effect if it was revoked before.
    ///
    /// # Errors
    /// If the database fails.
    fn revoke_token(
        &self,
        id: &TokenId,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StateError>;

    /// Notes when tokens were last used.
    ///
    /// # Errors
    /// If the database fails.
    fn note_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StateError>;

    /// Adds a job, unless the same request added it before, or the tenant has this many unfinished jobs already.
    ///
    /// # Errors
    /// If the database fails.
    fn submit(
        &self,
        job: &JobRecord,
        key: Option<&RequestKey>,
        most_unfinished: Option<u32>,
        audit: &AuditEntry,
    ) -> Result<Submitted, StateError>;

    /// The job with this id.
    ///
    /// # Errors
    /// If the database fails.
    fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StateError>;

    /// The next jobs that match, the latest first: those before this one.
    ///
    /// # Errors
    /// If the database fails.
    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<&JobId>,
        limit: u32,
    ) -> Result<Vec<JobRecord>, StateError>;

    /// All jobs that have not ended, the first first.
    ///
    /// # Errors
    /// If the database fails.
    fn unfinished(&self) -> Result<Vec<JobRecord>, StateError>;

    /// Changes a job. No other change of the job falls between reading and writing. Returns the job as it is then, or
    /// `None` if there is none. `change` returns false to leave the job as it is; then nothing is audited.
    ///
    /// # Errors
    /// If the database fails.
    fn change_job(
        &self,
        id: &JobId,
        change: &mut dyn FnMut(&mut JobRecord) -> bool,
        audit: Option<&AuditEntry>,
    ) -> Result<Option<JobRecord>, StateError>;

    /// Notes an entry script whose file is in the state's folder, unless the tenant's entry scripts would have more than
    /// `most` bytes together.
    ///
    /// # Errors
    /// If the database fails.
    fn add_script(
        &self,
        script: &ScriptRecord,
        most: Option<u64>,
        audit: &AuditEntry,
    ) -> Result<ScriptAdded, StateError>;

    /// The tenant's entry script with this digest.
    ///
    /// # Errors
    /// If the database fails.
    fn script(
        &self,
        tenant: &TenantName,
        digest: &ScriptDigest,
    ) -> Result<Option<ScriptRecord>, StateError>;

    /// The next entry scripts of a tenant, in the order of their digests.
    ///
    /// # Errors
    /// If the database fails.
    fn scripts(
        &self,
        tenant: &TenantName,
        after: Option<&ScriptDigest>,
        limit: u32,
    ) -> Result<Vec<ScriptRecord>, StateError>;

    /// How many jobs of a tenant have not ended.
    ///
    /// # Errors
    /// If the database fails.
    fn unfinished_of(&self, tenant: &TenantName) -> Result<u32, StateError>;

    /// The next entries of the audit, the latest first: those before this number. Only those of this tenant, if there is
    /// one.
    ///
    /// # Errors
    /// If the database fails.
    fn audit(
        &self,
        tenant: Option<&TenantName>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, StateError>;
}
