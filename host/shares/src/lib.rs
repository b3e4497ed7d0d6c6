//! Fair shares.

mod calendar;
mod error;
mod grants;
mod job;
mod names;
mod plan;
mod quotas;
mod resources;
mod settings;
mod shares;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod usage;

pub use error::ShareError;
pub use grants::{Grant, Grants, TenantShare, WaitReason, WaitingJob};
pub use job::{JobRequest, Priority};
pub use names::{GpuKind, JobId, TenantId, UserId};
pub use quotas::{Limit, Quota, QuotaExcess, QuotaNotice, Quotas, Strictness};
pub use resources::{Resource, Resources, SlotSize};
pub use settings::{ShareSettings, TenantSettings};
pub use shares::Shares;
pub use usage::Usage;
