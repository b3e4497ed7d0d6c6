//! Describes the plan.

use super::table::{MonthSum, PlannedTenant, Refusal, Table};
use crate::grants::{Grant, Grants, TenantShare, WaitReason, WaitingJob};
use crate::job::Job;
use crate::names::JobId;
use crate::quotas::{Limit, Quota, QuotaExcess, QuotaNotice, Strictness};
use crate::resources::Resources;
use crate::state::State;
use std::time::Duration;

/// A plan that is complete.
#[derive(Debug)]
pub(super) struct Plan<'t, 'a> {
    pub(super) table: &'t Table<'a>,
    /// The jobs of each tenant in turn, in the tenant's order.
    pub(super) order: Vec<usize>,
    /// What all jobs together get of each resource.
    pub(super) taken: Vec<u64>,
    /// The workers that each job may start now.
    pub(super) added: Vec<u64>,
    pub(super) now: Duration,
}

impl Plan<'_, '_> {
    pub(super) fn grants(&self, state: &State) -> Grants {
        let active =
            self.table.tenants.iter().filter(|tenant| tenant.held_jobs + tenant.queued_jobs > 0);
        let shares: Vec<Parts> =
            self.table.tenants.iter().map(|tenant| self.shares(tenant, &state.capacity)).collect();
        let before = self.waiting_before();
        let mut grants = Grants::default();
        for (index, (id, job)) in state.jobs.iter().enumerate() {
            if job.held() + self.added[index] > 0 {
                grants.running.push(self.grant(index, id, job));
            } else {
                let shares = &shares[self.table.jobs[index].tenant];
                grants.waiting.push(WaitingJob {
                    job: id.clone(),
                    reason: self.reason(index),
                    jobs_before: before[index],
                    share_millionths: shares.now,
                    fair_share_millionths: shares.fair,
                });
            }
        }
        grants.tenants = active.map(|tenant| self.tenant_share(tenant, &state.capacity)).collect();
        grants.notices =
            self.table.tenants.iter().flat_map(|tenant| self.notices(tenant)).collect();
        grants
    }

    fn grant(&self, index: usize, id: &JobId, job: &Job) -> Grant {
        let added = self.added[index];
        let held = job.held() + added;
        Grant {
            job: id.clone(),
            allowed: self.table.jobs[index].target.min(held),
            held,
            added,
            granted: job.granted + added,
        }
    }

    /// How many waiting jobs of the same tenant come before each job.
    fn waiting_before(&self) -> Vec<u32> {
        let mut before = vec![0; self.order.len()];
        let (mut tenant, mut count) = (usize::MAX, 0);
        for index in &self.order {
            let job = &self.table.jobs[*index];
            if job.tenant != tenant {
                (tenant, count) = (job.tenant, 0);
            }
            before[*index] = count;
            count += u32::from(job.held + self.added[*index] == 0);
        }
        before
    }

    fn reason(&self, index: usize) -> WaitReason {
        let job = &self.table.jobs[index];
        let tenant = &self.table.tenants[job.tenant];
        if job.target > 0 {
            return WaitReason::Coming { workers: job.target };
        }
        let need = &self.table.sizes[job.size].need;
        let asked = |at: usize| need[at].saturating_mul(job.minimum);
        let left = |whole: &[u64], at: usize| whole[at].saturating_sub(self.taken[at]);
        let dimensions = &self.table.dimensions;
        match job.refusal {
            // The last phase refuses no job because of the phase.
            Refusal::NothingToDo | Refusal::Phase => WaitReason::NothingToDo,
            Refusal::Month(sum) => match tenant.month(sum, self.now) {
                Some((_, excess)) => WaitReason::Quota(excess),
                None => WaitReason::NothingToDo,
            },
            Refusal::RunningJobs => WaitReason::Quota(QuotaExcess {
                quota: Quota::RunningJobs,
                limit: tenant.jobs_limit,
                used: tenant.held_jobs.max(tenant.target_jobs),
                asked: 1,
                resets_at: None,
            }),
            Refusal::Limit(at) => WaitReason::Quota(QuotaExcess {
                quota: Quota::Held(dimensions.resource(at)),
                limit: tenant.limits[at],
                used: tenant.held[at].max(tenant.target[at]),
                asked: asked(at),
                resets_at: None,
            }),
            Refusal::Capacity(at) if asked(at) > self.table.capacity[at] => WaitReason::TooLarge {
                resource: dimensions.resource(at),
                asked: asked(at),
                capacity: self.table.capacity[at],
            },
            Refusal::Capacity(at) => WaitReason::Busy {
                resource: dimensions.resource(at),
                asked: asked(at),
                left: left(&self.table.capacity, at),
            },
            Refusal::Reserved(at) => WaitReason::Reserved {
                resource: dimensions.resource(at),
                asked: asked(at),
                left: left(&self.table.unreserved, at),
            },
        }
    }

    fn shares(&self, tenant: &PlannedTenant<'_>, capacity: &Resources) -> Parts {
        let held = self.table.dimensions.resources(&tenant.held);
        Parts { now: held.dominant_billionths(capacity) / 1000, fair: tenant.fair_millionths() }
    }

    fn tenant_share(&self, tenant: &PlannedTenant<'_>, capacity: &Resources) -> TenantShare {
        let Parts { now, fair } = self.shares(tenant, capacity);
        TenantShare {
            tenant: tenant.id.clone(),
            held: self.table.dimensions.resources(&tenant.held),
            running_jobs: tenant.held_jobs,
            queued_jobs: tenant.queued_jobs,
            share_millionths: now,
            fair_share_millionths: fair,
            decayed_usage: tenant.portion.usage,
        }
    }

    /// The soft quotas that a tenant exceeds.
    fn notices(&self, tenant: &PlannedTenant<'_>) -> Vec<QuotaNotice> {
        let quotas = &tenant.state.settings.quotas;
        let dimensions = &self.table.dimensions;
        let held = quotas.held().filter_map(|(resource, limit)| {
            let used = tenant.held[dimensions.index(&resource)?];
            Some(now(Quota::Held(resource), limit, used))
        });
        let jobs = [
            (Quota::QueuedJobs, quotas.queued_jobs, tenant.queued_jobs),
            (Quota::RunningJobs, quotas.running_jobs, tenant.held_jobs),
        ];
        let jobs =
            jobs.into_iter().filter_map(|(quota, limit, used)| Some(now(quota, limit?, used)));
        let months = [MonthSum::Cpu, MonthSum::Gpu, MonthSum::Fuel];
        let months = months.into_iter().filter_map(|sum| tenant.month(sum, self.now));
        held.chain(jobs)
            .chain(months)
            .filter(|(limit, excess)| {
                limit.strictness == Strictness::Soft && excess.used > limit.amount
            })
            .map(|(_, excess)| QuotaNotice { tenant: tenant.id.clone(), excess })
            .collect()
    }
}

/// The shares of a tenant in millionths.
struct Parts {
    now: u64,
    fair: u64,
}

/// A quota that depends only on what jobs have now.
fn now(quota: Quota, limit: Limit, used: u64) -> (Limit, QuotaExcess) {
    (limit, QuotaExcess { quota, limit: limit.amount, used, asked: 0, resets_at: None })
}
