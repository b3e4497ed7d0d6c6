//! A simulated cluster, with the leaders of its jobs.

use super::job::SimulatedJob;
use crate::resources::Resources;
use crate::{
    Grants, JobId, JobRequest, ShareError, ShareSettings, Shares, TenantId, TenantSettings, Usage,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The kinds of GPUs of random clusters and jobs.
pub(super) const KINDS: [&str; 2] = ["H200", "L4"];

/// A simulated cluster.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedWorld {
    pub(crate) shares: Shares,
    pub(crate) settings: ShareSettings,
    pub(crate) capacity: Resources,
    pub(crate) tenants: BTreeMap<TenantId, TenantSettings>,
    pub(crate) jobs: BTreeMap<JobId, SimulatedJob>,
    pub(crate) now: Duration,
    pub(crate) grants: Grants,
    /// What each tenant used in total, in workers times seconds.
    pub(crate) used: BTreeMap<TenantId, f64>,
    /// What each tenant used this month.
    pub(crate) month: BTreeMap<TenantId, MonthSums>,
    /// Whether grants and reports take time.
    pub(crate) is_slow: bool,
}

/// What a tenant used in a month.
#[derive(Clone, Debug, Default)]
pub(crate) struct MonthSums {
    pub(crate) cpu_time: Duration,
    pub(crate) gpu_time: Duration,
    pub(crate) fuel: u64,
}

impl SimulatedWorld {
    pub(crate) fn new(settings: ShareSettings, capacity: Resources) -> Self {
        Self {
            shares: Shares::new(settings.clone(), capacity.clone()),
            settings,
            capacity,
            tenants: BTreeMap::new(),
            jobs: BTreeMap::new(),
            now: Duration::from_secs(1_795_966_028),
            grants: Grants::default(),
            used: BTreeMap::new(),
            month: BTreeMap::new(),
            is_slow: false,
        }
    }

    pub(crate) fn set_tenant(&mut self, id: &str, settings: TenantSettings) {
        self.shares.set_tenant(&id.into(), settings.clone());
        self.tenants.insert(id.into(), settings);
        self.used.entry(id.into()).or_default();
    }

    pub(crate) fn set_capacity(&mut self, capacity: Resources) {
        self.shares.set_capacity(capacity.clone());
        self.capacity = capacity;
    }

    /// Submits a job whose mini-batches all take the same time.
    pub(crate) fn submit(
        &mut self,
        request: JobRequest,
        mini_batches: u64,
        length: Duration,
    ) -> Result<(), ShareError> {
        let job = SimulatedJob::new(request, mini_batches, length, self.now);
        let mut request = job.request.clone();
        request.most_workers = job.most();
        self.shares.submit(request, self.now)?;
        self.jobs.insert(job.request.id.clone(), job);
        Ok(())
    }

    /// Shares, and sends the grants to the leaders.
    pub(crate) fn share(&mut self) {
        self.decide();
        self.deliver();
    }

    /// Shares, and leaves the grants on their way.
    pub(crate) fn decide(&mut self) {
        self.grants = self.shares.share(self.now);
        for grant in &self.grants.running {
            let job = self.jobs.get_mut(&grant.job).expect("grants are for existing jobs");
            job.sent = Some(grant.clone());
        }
    }

    /// Delivers all grants and reports.
    pub(crate) fn deliver(&mut self) {
        let ids: Vec<JobId> = self.jobs.keys().cloned().collect();
        for id in ids {
            self.jobs.get_mut(&id).expect("it exists").receive(self.now);
            self.report(&id);
        }
    }

    /// Delivers what a leader has to report.
    pub(crate) fn report(&mut self, id: &JobId) {
        let job = self.jobs.get_mut(id).expect("it exists");
        job.reported_most = job.most();
        self.shares.set_most_workers(id, job.reported_most).expect("it exists");
        job.reported = job.given_back;
        self.shares.gave_back(id, job.reported, self.now).expect("it exists");
        if job.has_ended() && job.workers() == 0 {
            self.shares.end(id).expect("it exists");
            self.jobs.remove(id);
        }
    }

    /// When the next mini-batch ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        let running = self.jobs.values().flat_map(|job| &job.running);
        running.map(|(end, _)| *end).min()
    }

    /// Goes to the time at which the next mini-batch ends, and ends all mini-batches that end then.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.now = now;
        let ids: Vec<JobId> = self.jobs.keys().cloned().collect();
        for id in ids {
            let job = self.jobs.get_mut(&id).expect("it exists");
            let ended = job.finish(now);
            if ended.is_empty() {
                continue;
            }
            job.work(now);
            let request = job.request.clone();
            for length in ended {
                self.count(&request, length);
            }
            if !self.is_slow {
                self.report(&id);
            }
        }
    }

    fn count(&mut self, request: &JobRequest, wall: Duration) {
        let mut resources = Resources::default();
        resources.add(&request.slot, 1);
        let gpus: u64 = request.slot.gpus.values().sum();
        let gpu_time = wall * u32::try_from(gpus).expect("few GPUs");
        let usage = Usage { resources, wall, cpu_time: wall, gpu_time, fuel: 1000 };
        let tenant = &request.tenant;
        let user = request.user.as_ref();
        self.shares.used(tenant, user, &usage, self.now).expect("the tenant exists");
        let month = self.month.entry(tenant.clone()).or_default();
        month.cpu_time += usage.cpu_time;
        month.gpu_time += usage.gpu_time;
        month.fuel += usage.fuel;
        *self.used.get_mut(tenant).expect("the tenant exists") += wall.as_secs_f64();
    }

    /// Runs for a time, and shares after each mini-batch.
    pub(crate) fn run(&mut self, time: Duration, mut after_each: impl FnMut(&mut Self)) {
        let end = self.now + time;
        self.share();
        while let Some(next) = self.next_end().filter(|next| *next <= end) {
            self.advance(next);
            after_each(self);
            self.share();
        }
        self.now = end;
    }

    /// What a tenant holds, by the latest grants, which are not delivered yet.
    pub(crate) fn held_by(&self, tenant: &TenantId) -> Resources {
        let mut held = Resources::default();
        for grant in &self.grants.running {
            let request = &self.jobs[&grant.job].request;
            if request.tenant == *tenant {
                held.add(&request.slot, grant.held);
            }
        }
        held
    }

    /// The workers that each tenant's jobs have now.
    pub(crate) fn workers(&self, tenant: &str) -> u64 {
        let jobs = self.jobs.values().filter(|job| job.request.tenant.as_str() == tenant);
        jobs.map(SimulatedJob::workers).sum()
    }
}
