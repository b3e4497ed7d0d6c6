//! The settings of the shares, and of a tenant.

use crate::quotas::Quotas;
use crate::resources::Resources;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;

/// Settings for all tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShareSettings {
    /// After this time, past usage counts half. A day by default.
    pub half_life: Duration,
    /// A waiting job rises by one class of priority each time that it has waited this long. 6 hours by default.
    pub ageing_step: Duration,
    /// The percentage `r` of the reservation for newcomers. While `n` tenants have jobs, `(r/100)^n` of the cluster
    /// stays free for other tenants. 10 by default, at most 99.
    pub newcomers_percent: u32,
    /// If two tenants or users with equal shares contend for one slot, the one that has the slot keeps it until its
    /// usage exceeds the other's by what one worker uses in this time. A minute by default.
    pub time_slice: Duration,
}

impl Default for ShareSettings {
    fn default() -> Self {
        Self {
            half_life: Duration::from_secs(24 * 60 * 60),
            ageing_step: Duration::from_secs(6 * 60 * 60),
            newcomers_percent: 10,
            time_slice: Duration::from_secs(60),
        }
    }
}

/// Settings of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantSettings {
    /// The tenant's weight. A tenant of weight 3 gets three times as much as a tenant of weight 1.
    pub weight: NonZeroU32,
    /// What the tenant gets before other tenants borrow it. An amount of 0 guarantees nothing of this resource. A
    /// worker is within the guarantee if it needs at least one guaranteed resource, and if the tenant's
    /// guarantees suffice for all guaranteed resources that the worker needs.
    pub guaranteed: Resources,
    /// The quotas.
    pub quotas: Quotas,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            weight: NonZeroU32::MIN,
            guaranteed: Resources::default(),
            quotas: Quotas::default(),
        }
    }
}
