//! The machine.

use crate::error::ShareError;
use crate::grants::Grants;
use crate::job::{Job, JobRequest, Priority};
use crate::names::{JobId, TenantId, UserId};
use crate::plan::plan;
use crate::quotas::{Quota, QuotaExcess, Strictness};
use crate::resources::Resources;
use crate::settings::{ShareSettings, TenantSettings};
use crate::state::State;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Divides a cluster among the jobs of many tenants.
///
/// All times are times since 1970-01-01 in UTC, because quotas begin anew with each calendar month. If a caller passes
/// an earlier time than before, the earlier time counts as the latest one so far.
///
/// serde reads and writes the whole state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shares {
    state: State,
}

impl Shares {
    /// A cluster without tenants.
    pub fn new(settings: ShareSettings, capacity: Resources) -> Self {
        Self { state: State::new(settings, capacity) }
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, settings: ShareSettings) {
        self.state.settings = settings;
    }

    /// Changes what the cluster has, because nodes joined, drain or are lost. Workers on a lost node count until their
    /// jobs report them as given back. Meanwhile, jobs get no more workers than fit.
    ///
    /// The number of workers must be a real one, because sharing takes time in proportion to it.
    pub fn set_capacity(&mut self, capacity: Resources) {
        self.state.capacity = capacity;
    }

    /// Adds a tenant, or changes its settings. Its usage stays.
    pub fn set_tenant(&mut self, tenant: &TenantId, settings: TenantSettings) {
        self.state.tenants.entry(tenant.clone()).or_default().settings = settings;
    }

    /// Forgets a tenant and its usage. Fails if the tenant has jobs.
    pub fn remove_tenant(&mut self, tenant: &TenantId) -> Result<(), ShareError> {
        if self.state.jobs_of(tenant).next().is_some() {
            return Err(ShareError::TenantHasJobs(tenant.clone()));
        }
        let removed = self.state.tenants.remove(tenant);
        removed.map(|_| ()).ok_or_else(|| ShareError::UnknownTenant(tenant.clone()))
    }

    /// Forgets the tenants without jobs that have used less than the whole cluster in a second, with decay.
    pub fn forget_idle_tenants(&mut self, now: Duration) {
        let now = self.state.advance(now);
        self.state.forget_idle_tenants(now);
    }

    /// Adds a job to the queue. Fails if a hard quota of the tenant allows no more queued jobs, or never allows the
    /// job's minimum of workers.
    pub fn submit(&mut self, request: JobRequest, now: Duration) -> Result<(), ShareError> {
        let now = self.state.advance(now);
        if self.state.jobs.contains_key(&request.id) {
            return Err(ShareError::DuplicateJob(request.id));
        }
        let id = request.id.clone();
        let job = Job::new(request, self.state.submitted, now);
        if let Some(excess) = self.excess(&job)? {
            return Err(ShareError::Quota { tenant: job.tenant, excess });
        }
        self.state.submitted += 1;
        self.state.add_job(id, job);
        Ok(())
    }

    /// The hard quota that refuses a job. `None` if there is none.
    fn excess(&self, job: &Job) -> Result<Option<QuotaExcess>, ShareError> {
        let tenant = self.state.tenants.get(&job.tenant);
        let tenant = tenant.ok_or_else(|| ShareError::UnknownTenant(job.tenant.clone()))?;
        let quotas = &tenant.settings.quotas;
        let mut asked = Resources::default();
        asked.add(&job.slot, job.minimum());
        let held = quotas.held().map(|(resource, limit)| {
            let asked = asked.amount(&resource);
            (Quota::Held(resource), limit, 0, asked)
        });
        let queued = quotas.queued_jobs.map(|limit| {
            let queued = self.state.jobs_of(&job.tenant).filter(|job| job.held() == 0).count();
            (Quota::QueuedJobs, limit, queued as u64, 1)
        });
        let mut limits = queued.into_iter().chain(held);
        let exceeded = limits.find(|(_, limit, used, asked)| {
            limit.strictness == Strictness::Hard && used + asked > limit.amount
        });
        Ok(exceeded.map(|(quota, limit, used, asked)| QuotaExcess {
            quota,
            limit: limit.amount,
            used,
            asked,
            resets_at: None,
        }))
    }

    /// Whether a job is queued or running.
    pub fn has_job(&self, job: &JobId) -> bool {
        self.state.jobs.contains_key(job)
    }

    /// The queued and running jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &JobId> {
        self.state.jobs.keys()
    }

    /// Changes a job's priority. The job keeps the classes by which it rose while waiting.
    pub fn set_priority(&mut self, job: &JobId, priority: Priority) -> Result<(), ShareError> {
        self.job_mut(job)?.priority = priority;
        Ok(())
    }

    /// Changes how many workers a job can use: because fewer mini-batches remain, or 0 while the job is paused.
    pub fn set_most_workers(&mut self, job: &JobId, most: u64) -> Result<(), ShareError> {
        self.job_mut(job)?.most_workers = most;
        Ok(())
    }

    /// A job has given back this many workers in total, since it was submitted. The caller may repeat a report, and
    /// reports may arrive in any order.
    pub fn gave_back(&mut self, job: &JobId, total: u64, now: Duration) -> Result<(), ShareError> {
        self.reconnected(job, 0, total, now)
    }

    /// A job reports after a restart how many workers it got in total, by the latest [`Grant`](crate::Grant) that it
    /// knows, and how many it gave back in total. If the stored state is older than the job's knowledge, the job's
    /// knowledge counts.
    pub fn reconnected(
        &mut self,
        job: &JobId,
        granted: u64,
        given_back: u64,
        now: Duration,
    ) -> Result<(), ShareError> {
        let now = self.state.advance(now);
        let id = job;
        let job = self.job_mut(id)?;
        let granted = granted.max(job.granted);
        if given_back > granted {
            return Err(ShareError::GaveBackTooMany { job: id.clone(), granted, given_back });
        }
        job.grant(granted - job.granted, now);
        job.give_back(given_back, now);
        Ok(())
    }

    /// A job has ended, and has no workers any longer. What it held is free.
    pub fn end(&mut self, job: &JobId) -> Result<(), ShareError> {
        let removed = self.state.jobs.remove(job);
        removed.map(|_| ()).ok_or_else(|| ShareError::UnknownJob(job.clone()))
    }

    /// Counts what an attempt used, or what it used since the previous call. `user` is that of the job.
    pub fn used(
        &mut self,
        tenant: &TenantId,
        user: Option<&UserId>,
        usage: &Usage,
        now: Duration,
    ) -> Result<(), ShareError> {
        let now = self.state.advance(now);
        let unnamed = UserId::from("");
        let billionths = usage.resources.dominant_billionths(&self.state.capacity);
        let half_life = self.state.settings.half_life;
        let known = self.state.tenants.get_mut(tenant);
        let known = known.ok_or_else(|| ShareError::UnknownTenant(tenant.clone()))?;
        known.add_usage(user.unwrap_or(&unnamed), usage, billionths, now, half_life);
        Ok(())
    }

    /// Decides how many workers each job may use from now on. The caller calls this after each change, and every few
    /// seconds, because waiting jobs age. It stores the state before it acts on the grants.
    pub fn share(&mut self, now: Duration) -> Grants {
        let now = self.state.advance(now);
        let grants = plan(&self.state, now);
        let is_taking = grants.running.iter().any(|grant| grant.allowed < grant.held);
        self.state.hold_usage(is_taking, now);
        for grant in &grants.running {
            if let Some(job) = self.state.jobs.get_mut(&grant.job) {
                job.grant(grant.added, now);
            }
        }
        grants
    }

    fn job_mut(&mut self, job: &JobId) -> Result<&mut Job, ShareError> {
        self.state.jobs.get_mut(job).ok_or_else(|| ShareError::UnknownJob(job.clone()))
    }
}
