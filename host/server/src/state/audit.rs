//! What was done by whom.

use crate::names::TenantName;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A change of the server's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditEntry {
    /// When.
    pub(crate) at: Timestamp,
    /// The tenant that the change concerns. `None` if it concerns the server.
    pub(crate) tenant: Option<TenantName>,
    /// Who: `token:ID`, or `server`.
    pub(crate) actor: String,
    /// What was done, as in `job.submit`.
    pub(crate) action: &'static str,
    /// The id or name of what was changed.
    pub(crate) target: String,
    /// More about it, for people. May be empty.
    pub(crate) detail: String,
}

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct AuditRecord {
    /// The entry's number. Later entries have greater numbers.
    pub(crate) number: i64,
    /// When it was done.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    /// The tenant that the change concerns. Absent if it concerns the server.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<TenantName>,
    /// Who did it: `token:ID`, or `server`.
    pub(crate) actor: String,
    /// What was done, as in `job.submit`.
    pub(crate) action: String,
    /// The id or name of what was changed.
    pub(crate) target: String,
    /// More about it, for people.
    pub(crate) detail: String,
}
