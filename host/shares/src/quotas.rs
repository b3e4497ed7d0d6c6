//! The quotas of a tenant.

use crate::names::{GpuKind, TenantId};
use crate::resources::Resource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What happens if a quota is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// Jobs wait, or are refused.
    Hard,
    /// Jobs go on, and a [`QuotaNotice`] reports it.
    Soft,
}

/// The most of something that a tenant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The amount, in the unit of the quota.
    pub amount: u64,
    /// What happens beyond the amount.
    pub strictness: Strictness,
}

impl Limit {
    /// A hard limit.
    pub fn hard(amount: u64) -> Self {
        Self { amount, strictness: Strictness::Hard }
    }

    /// A soft limit.
    pub fn soft(amount: u64) -> Self {
        Self { amount, strictness: Strictness::Soft }
    }
}

/// The quotas of a tenant. `None` means that there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quotas {
    /// Jobs without workers.
    pub queued_jobs: Option<Limit>,
    /// Jobs with workers.
    pub running_jobs: Option<Limit>,
    /// Workers.
    pub workers: Option<Limit>,
    /// Bytes of memory.
    pub memory: Option<Limit>,
    /// Thousandths of a core.
    pub cpu: Option<Limit>,
    /// GPUs of each kind. A kind without an entry has no limit.
    pub gpus: BTreeMap<GpuKind, Limit>,
    /// Seconds of processor time in a calendar month.
    pub cpu_seconds: Option<Limit>,
    /// Seconds of GPUs in a calendar month.
    pub gpu_seconds: Option<Limit>,
    /// Fuel in a calendar month, in the engine's units.
    pub fuel: Option<Limit>,
}

/// A quota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// Jobs without workers.
    QueuedJobs,
    /// Jobs with workers.
    RunningJobs,
    /// An amount that the tenant may have at the same time, in the unit of the resource.
    Held(Resource),
    /// Seconds of processor time in a calendar month.
    CpuSeconds,
    /// Seconds of GPUs in a calendar month.
    GpuSeconds,
    /// Fuel in a calendar month.
    Fuel,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueuedJobs => f.write_str("queued jobs"),
            Self::RunningJobs => f.write_str("running jobs"),
            Self::Held(resource) => write!(f, "{resource}"),
            Self::CpuSeconds => f.write_str("CPU seconds per month"),
            Self::GpuSeconds => f.write_str("GPU seconds per month"),
            Self::Fuel => f.write_str("fuel per month"),
        }
    }
}

/// How a quota is exceeded, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaExcess {
    /// The quota.
    pub quota: Quota,
    /// The quota's amount, in its unit.
    pub limit: u64,
    /// What the tenant uses now, in the same unit. Includes what jobs still hold and have to give back.
    pub used: u64,
    /// What the job asks for in addition, in the same unit. 0 if the quota is a sum of a month.
    pub asked: u64,
    /// When the quota begins at zero again, as the time since 1970-01-01 in UTC. `None` if it depends only on what
    /// the tenant's jobs have now.
    pub resets_at: Option<Duration>,
}

impl fmt::Display for QuotaExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, limit, used, asked, .. } = self;
        write!(
            f,
            "the quota of {quota} is {limit}: {used} are in use, and the job asks for {asked}"
        )
    }
}

/// Reports that a tenant exceeds a soft quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaNotice {
    /// The tenant.
    pub tenant: TenantId,
    /// The quota and its use. `asked` is 0.
    pub excess: QuotaExcess,
}

impl Quotas {
    /// The limits of amounts that the tenant may have at the same time.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Resource, Limit)> {
        let plain = [
            (Resource::Workers, self.workers),
            (Resource::Memory, self.memory),
            (Resource::Cpu, self.cpu),
        ];
        let plain = plain.into_iter().filter_map(|(resource, limit)| Some((resource, limit?)));
        plain.chain(self.gpus.iter().map(|(kind, limit)| (Resource::Gpu(kind.clone()), *limit)))
    }
}
