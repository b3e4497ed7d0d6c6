//! Tokens, with which programs and people call the API.

use crate::names::{TenantName, TokenId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// What a token allows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
pub(crate) enum Scope {
    /// To list and show the tenant's jobs, with their results and their entry scripts.
    #[serde(rename = "jobs:read")]
    ReadJobs,
    /// To upload entry scripts, and to submit, cancel, pause and resume jobs.
    #[serde(rename = "jobs:write")]
    WriteJobs,
    /// To read what entry scripts have printed.
    #[serde(rename = "logs:read")]
    ReadLogs,
    /// To make and revoke tokens of the tenant, and to read its audit.
    #[serde(rename = "tokens:write")]
    WriteTokens,
    /// To do all of this for every tenant, and to add tenants. Only a token without a tenant has it.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// All scopes with their names.
    pub(crate) const NAMED: [(&'static str, Self); 5] = [
        ("jobs:read", Self::ReadJobs),
        ("jobs:write", Self::WriteJobs),
        ("logs:read", Self::ReadLogs),
        ("tokens:write", Self::WriteTokens),
        ("admin", Self::Admin),
    ];

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, scope)| *scope == self).map_or("", |(name, _)| name)
    }
}

/// The scopes of a token.
pub(crate) type Scopes = BTreeSet<Scope>;

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenRecord {
    /// The id, which is a part of the token's text.
    pub(crate) id: TokenId,
    /// The SHA-256 of the token's text. The secret in it has 256 random bits, so a slow hash would protect nothing.
    pub(crate) hash: [u8; 32],
    /// The tenant. `None` for a token of an operator.
    pub(crate) tenant: Option<TenantName>,
    /// What it allows.
    pub(crate) scopes: Scopes,
    /// What it is for, for people.
    pub(crate) label: String,
    /// When it was made.
    pub(crate) created: Timestamp,
    /// From when it no longer counts. `None` if it counts until it is revoked.
    pub(crate) expires: Option<Timestamp>,
    /// When it was last used, to about a minute. `None` if it was not used.
    pub(crate) last_used: Option<Timestamp>,
    /// When it was revoked. `None` if it was not.
    pub(crate) revoked: Option<Timestamp>,
}

impl TokenRecord {
    /// Whether the token counts at this time.
    pub(crate) fn counts_at(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}
