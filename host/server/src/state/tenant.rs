//! Tenants and their quotas.

use crate::names::TenantName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A group of people whose jobs and data the others do not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The name.
    pub(crate) name: TenantName,
    /// Its part of the machine, relative to the weights of the other tenants. From 1.
    pub(crate) weight: u32,
    /// What it may use.
    pub(crate) quotas: Quotas,
    /// When it was added.
    pub(crate) created: Timestamp,
    /// Incremented by each change.
    pub(crate) version: u64,
}

/// What a tenant may use. `None` sets no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quotas {
    /// The most jobs that have not ended. Paused jobs count, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub(crate) unfinished_jobs: Option<u32>,
    /// The most jobs that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub(crate) running_jobs: Option<u32>,
    /// The most bytes of uploaded entry scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub(crate) upload_bytes: Option<u64>,
    /// The most requests of all tokens in a second, averaged over a few seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub(crate) requests_per_second: Option<u32>,
}
