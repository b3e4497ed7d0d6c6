//! Invariants that are checked after each time that the machine shared.

use super::job::SimulatedJob;
use super::world::{KINDS, SimulatedWorld};
use crate::{
    Grant, JobId, JobRequest, Limit, Resource, Resources, Strictness, TenantId, WaitReason,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After so many times without changes, the machine decides the same again.
const MAX_ROUNDS: u32 = 4;

/// What the checks remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// What each job held after the previous time.
    held: BTreeMap<JobId, u64>,
    /// Since when a tenant below its fair share has no workers.
    starved: BTreeMap<TenantId, Duration>,
    /// The longest mini-batch so far.
    longest: Duration,
    pub(crate) counts: Counts,
}

/// How often something happened that the schedules shall test.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) shared: u64,
    pub(crate) conserved: u64,
    pub(crate) lowered: u64,
    pub(crate) starved: u64,
    pub(crate) gangs: u64,
    pub(crate) quota_waits: u64,
    pub(crate) reserved: u64,
    pub(crate) overcommitted: u64,
    pub(crate) restarts: u64,
    pub(crate) unstable: u64,
}

impl SimulatedWorld {
    /// Checks all invariants. The machine has just shared.
    pub(crate) fn check(&self, memory: &mut Memory) {
        memory.counts.shared += 1;
        self.check_grants(memory);
        self.check_capacity(memory);
        for tenant in self.tenants.keys() {
            self.check_quotas(tenant, memory);
        }
        self.check_reasons(memory);
        self.check_conservation(memory);
        self.check_starvation(memory);
        self.check_stability(memory);
        let grants = self.grants.running.iter();
        memory.held = grants.map(|grant| (grant.job.clone(), grant.held)).collect();
    }

    pub(super) fn request_of(&self, job: &JobId) -> &JobRequest {
        &self.jobs[job].request
    }

    /// Each job is there once, and no job gets what it cannot use.
    fn check_grants(&self, memory: &mut Memory) {
        let running = self.grants.running.iter().map(|grant| &grant.job);
        let waiting = self.grants.waiting.iter().map(|waiting| &waiting.job);
        let listed: Vec<&JobId> = running.chain(waiting).collect();
        let distinct: BTreeSet<&JobId> = listed.iter().copied().collect();
        assert_eq!((listed.len(), distinct.len()), (self.jobs.len(), self.jobs.len()));
        for Grant { job, allowed, held, added, granted } in &self.grants.running {
            let simulated = &self.jobs[job];
            assert_eq!(*held, granted - simulated.reported, "{job}");
            assert!(allowed <= held && added <= held, "{job}");
            let before = memory.held.get(job).copied().unwrap_or(0);
            if *added > 0 {
                let most = simulated.reported_most;
                assert!(*allowed == *held && *held <= most, "{job} gets more than it can use");
                let minimum = simulated.request.minimum_workers.min(most);
                assert!(*held >= minimum, "{job} starts with {held} of {minimum} workers");
                memory.counts.gangs += u64::from(minimum > 1 && before == 0);
            }
            memory.counts.lowered += u64::from(allowed < held);
        }
    }

    fn held_in_all(&self) -> Resources {
        let mut held = Resources::default();
        for grant in &self.grants.running {
            held.add(&self.request_of(&grant.job).slot, grant.held);
        }
        held
    }

    /// The resources of which the capacity or a quota counts.
    pub(super) fn resources(&self) -> Vec<Resource> {
        let kinds = KINDS.map(|kind| Resource::Gpu(kind.into()));
        [Resource::Workers, Resource::Memory, Resource::Cpu].into_iter().chain(kinds).collect()
    }

    /// Of no resource, jobs hold more than the cluster has, unless it has less than before. Then no job gets more.
    fn check_capacity(&self, memory: &mut Memory) {
        let held = self.held_in_all();
        for resource in self.resources() {
            let held = held.amount(&resource);
            let capacity = self.capacity.amount(&resource);
            if held > capacity {
                memory.counts.overcommitted += 1;
                for grant in self.grants.running.iter().filter(|grant| grant.added > 0) {
                    let need = one(self.request_of(&grant.job)).amount(&resource);
                    assert_eq!(need, 0, "{} gets {resource} beyond {capacity}", grant.job);
                }
            }
        }
    }

    /// No grant exceeds a hard quota.
    fn check_quotas(&self, tenant: &TenantId, memory: &mut Memory) {
        let of_tenant = |grant: &&Grant| self.request_of(&grant.job).tenant == *tenant;
        let grants: Vec<&Grant> = self.grants.running.iter().filter(of_tenant).collect();
        let held = self.held_by(tenant);
        for (resource, limit) in self.tenants[tenant].quotas.held() {
            let used = held.amount(&resource);
            for grant in grants.iter().filter(|grant| grant.added > 0) {
                let need = one(self.request_of(&grant.job)).amount(&resource);
                let is_within = need == 0 || used <= amount(Some(limit));
                assert!(is_within, "{} exceeds {tenant}'s quota of {resource}", grant.job);
            }
        }
        let started = grants.iter().filter(|grant| grant.added == grant.held).count();
        let limit = amount(self.tenants[tenant].quotas.running_jobs);
        assert!(started == 0 || grants.len() as u64 <= limit, "{tenant} runs too many jobs");
        let added = || grants.iter().filter(|grant| grant.added > 0);
        if let Some(needs_gpus) = self.is_used_up(tenant) {
            let uses = |grant: &&&Grant| !self.request_of(&grant.job).slot.gpus.is_empty();
            let wrong = added().find(|grant| !needs_gpus || uses(grant));
            assert!(wrong.is_none(), "{tenant} has used its month up: {wrong:?}");
            memory.counts.quota_waits += 1;
        }
    }

    /// Whether a hard quota of the month is used up; whether only jobs with GPUs must wait.
    pub(super) fn is_used_up(&self, tenant: &TenantId) -> Option<bool> {
        let quotas = &self.tenants[tenant].quotas;
        let month = self.month.get(tenant)?;
        if month.cpu_time.as_secs() >= amount(quotas.cpu_seconds)
            || month.fuel >= amount(quotas.fuel)
        {
            return Some(false);
        }
        (month.gpu_time.as_secs() >= amount(quotas.gpu_seconds)).then_some(true)
    }

    /// Reasons are true by their own numbers.
    fn check_reasons(&self, memory: &mut Memory) {
        let mut places = BTreeSet::new();
        for waiting in &self.grants.waiting {
            let job = &self.jobs[&waiting.job];
            let place = (&job.request.tenant, waiting.jobs_before);
            assert!(places.insert(place), "two jobs have one place");
            let is_true = match &waiting.reason {
                WaitReason::NothingToDo => job.reported_most == 0,
                WaitReason::Quota(excess) => {
                    memory.counts.quota_waits += 1;
                    let is_month = excess.resets_at.is_some();
                    excess.used + excess.asked + u64::from(is_month) > excess.limit
                }
                WaitReason::TooLarge { asked, capacity, .. } => asked > capacity,
                WaitReason::Busy { asked, left, .. } => asked > left,
                WaitReason::Reserved { asked, left, .. } => {
                    memory.counts.reserved += 1;
                    asked > left
                }
                WaitReason::Coming { workers } => {
                    // Some job has to give something back.
                    let drains = |grant: &Grant| grant.allowed < grant.held;
                    *workers > 0 && self.grants.running.iter().any(drains)
                }
            };
            assert!(is_true, "{}: {:?}", waiting.job, waiting.reason);
        }
    }

    /// If no job has to give workers back, then no job fits that could get more.
    fn check_conservation(&self, memory: &mut Memory) {
        if self.grants.running.iter().any(|grant| grant.allowed < grant.held) {
            return;
        }
        memory.counts.conserved += 1;
        let held = self.held_in_all();
        let held_by: BTreeMap<&TenantId, Resources> =
            self.tenants.keys().map(|tenant| (tenant, self.held_by(tenant))).collect();
        let grants: BTreeMap<&JobId, &Grant> =
            self.grants.running.iter().map(|grant| (&grant.job, grant)).collect();
        let unreserved = self.unreserved();
        for (id, job) in &self.jobs {
            let request = &job.request;
            let has = grants.get(id).map_or(0, |grant| grant.held);
            let workers =
                if has == 0 { request.minimum_workers.min(job.reported_most).max(1) } else { 1 };
            if has + workers > job.reported_most {
                continue;
            }
            let own = &held_by[&request.tenant];
            let limits = if own.workers == 0 { &self.capacity } else { &unreserved };
            let mut asked = Resources::default();
            asked.add(&request.slot, workers);
            let fits = self.resources().into_iter().all(|resource| {
                let asked = asked.amount(&resource);
                asked == 0 || held.amount(&resource) + asked <= limits.amount(&resource)
            });
            let is_allowed = self.is_allowed(request, &asked, own, has == 0);
            assert!(!fits || !is_allowed, "{id} fits, and does not get {workers} workers");
        }
    }

    /// Whether the tenant's hard quotas allow a job to have more in addition to what the tenant has.
    pub(super) fn is_allowed(
        &self,
        request: &JobRequest,
        asked: &Resources,
        own: &Resources,
        is_new: bool,
    ) -> bool {
        let tenant = &request.tenant;
        let quotas = &self.tenants[tenant].quotas;
        let of_tenant = |grant: &&Grant| self.request_of(&grant.job).tenant == *tenant;
        let running = self.grants.running.iter().filter(of_tenant).count() as u64;
        let waits_for_month = self
            .is_used_up(tenant)
            .is_some_and(|needs_gpus| !needs_gpus || !request.slot.gpus.is_empty());
        let fits = quotas.held().all(|(resource, limit)| {
            let asked = asked.amount(&resource);
            asked == 0 || own.amount(&resource) + asked <= amount(Some(limit))
        });
        fits && !waits_for_month && (!is_new || running < amount(quotas.running_jobs))
    }

    /// The capacity without the reservation for newcomers.
    fn unreserved(&self) -> Resources {
        let active = |tenant: &&TenantId| {
            self.jobs.iter().any(|(id, job)| {
                let is_held = self.grants.running.iter().any(|grant| grant.job == *id);
                job.request.tenant == **tenant && (job.reported_most > 0 || is_held)
            })
        };
        let tenants = self.tenants.keys().filter(active).count();
        let reserve = |amount: u64| {
            let percent = u64::from(self.settings.newcomers_percent);
            (0..tenants).fold(amount, |amount, _| amount * percent / 100)
        };
        let mut left = self.capacity.clone();
        if reserve(left.workers) == 0 || tenants == 0 {
            return left;
        }
        left.workers -= reserve(left.workers);
        left.memory -= reserve(left.memory);
        left.cpu -= reserve(left.cpu);
        left.gpus.values_mut().for_each(|count| *count -= reserve(*count));
        left
    }

    /// A tenant without workers gets some within twice the longest mini-batch, if its fair share suffices for a job.
    fn check_starvation(&self, memory: &mut Memory) {
        let is_exempt = self.is_slow
            || self.tenants.values().any(|tenant| tenant.guaranteed != Resources::default())
            || self.jobs.values().any(|job| job.submitted + self.settings.ageing_step <= self.now);
        if is_exempt {
            return memory.starved.clear();
        }
        let longest = self.jobs.values().map(|job| job.length).max().unwrap_or_default();
        memory.longest = memory.longest.max(longest);
        for share in &self.grants.tenants {
            let fair = share.fair_share_millionths;
            let starves = share.running_jobs == 0
                && self.jobs.values().any(|job| {
                    job.request.tenant == share.tenant
                        && job.reported_most > 0
                        && self.is_due(job, fair)
                });
            if !starves {
                memory.starved.remove(&share.tenant);
                continue;
            }
            memory.counts.starved += 1;
            let since = *memory.starved.entry(share.tenant.clone()).or_insert(self.now);
            let waits = self.now - since;
            assert!(
                waits <= 2 * memory.longest,
                "{} waits for {waits:?} below its share",
                share.tenant
            );
        }
    }

    /// Whether the fair share of a tenant without workers suffices for a job.
    fn is_due(&self, job: &SimulatedJob, fair_millionths: u64) -> bool {
        let request = &job.request;
        let mut asked = Resources::default();
        asked.add(&request.slot, request.minimum_workers.min(job.reported_most).max(1));
        let share = asked.dominant_billionths(&self.capacity);
        // The share is rounded to millionths.
        share + 1000 < fair_millionths * 1000
            && self.is_allowed(request, &asked, &Resources::default(), true)
    }

    /// Without changes, the machine soon decides the same again. Nearly always, it does so at once: the new workers of a
    /// user may change the order of its tenant's users, so that another job comes first.
    fn check_stability(&self, memory: &mut Memory) {
        let mut shares = self.shares.clone();
        let numbers = |grants: &[Grant]| -> Vec<(JobId, u64, u64)> {
            grants.iter().map(|grant| (grant.job.clone(), grant.allowed, grant.held)).collect()
        };
        let mut before = numbers(&self.grants.running);
        for _ in 0..MAX_ROUNDS {
            let after = numbers(&shares.share(self.now).running);
            if after == before {
                return;
            }
            memory.counts.unstable += 1;
            before = after;
        }
        panic!("the machine changes its mind again and again");
    }

    /// The capacity has changed, so that waits begin anew.
    pub(crate) fn forget_waits(memory: &mut Memory) {
        memory.starved.clear();
    }
}

fn one(request: &JobRequest) -> Resources {
    let mut one = Resources::default();
    one.add(&request.slot, 1);
    one
}

/// The amount of a hard limit.
fn amount(limit: Option<Limit>) -> u64 {
    limit
        .filter(|limit| limit.strictness == Strictness::Hard)
        .map_or(u64::MAX, |limit| limit.amount)
}
