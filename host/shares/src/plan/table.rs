//! Jobs, users and tenants as tables, with numbers instead of names.

use super::dimensions::{Dimensions, WHOLE, WORKERS, add};
use crate::job::Job;
use crate::names::{TenantId, UserId};
use crate::quotas::{Limit, Quota, QuotaExcess, Strictness};
use crate::resources::{Resources, SlotSize};
use crate::state::{State, Tenant};
use crate::usage::DecayedUsage;
use std::collections::HashMap;
use std::time::Duration;

/// What a tenant or a user gets in the plan.
#[derive(Debug)]
pub(super) struct Portion {
    /// The part of each resource, in the unit of [`WHOLE`].
    parts: Vec<u64>,
    /// The largest of the parts.
    pub(super) dominant: u64,
    /// The workers that it gets.
    pub(super) workers: u64,
    /// The decayed usage.
    pub(super) usage: u64,
}

/// A job in the plan.
#[derive(Debug)]
pub(super) struct PlannedJob {
    pub(super) tenant: usize,
    pub(super) user: usize,
    pub(super) size: usize,
    pub(super) class: u64,
    pub(super) sequence: u64,
    pub(super) is_overdue: bool,
    pub(super) most: u64,
    pub(super) minimum: u64,
    pub(super) held: u64,
    /// The workers that the job gets in the plan.
    pub(super) target: u64,
    /// Why the job gets no workers.
    pub(super) refusal: Refusal,
}

/// Why a job gets no workers. An index is that of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NothingToDo,
    /// The job would exceed the guarantee or the fair share, to which a phase is limited.
    Phase,
    RunningJobs,
    Limit(usize),
    Month(MonthSum),
    Capacity(usize),
    Reserved(usize),
}

/// A sum of a month that has a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonthSum {
    Cpu,
    Gpu,
    Fuel,
}

/// What one worker of some jobs needs.
#[derive(Debug)]
pub(super) struct PlannedSize {
    pub(super) need: Vec<u64>,
    /// The part of each resource of the cluster, in the unit of [`WHOLE`].
    part: Vec<u64>,
    pub(super) uses_gpus: bool,
    /// The usage of one worker in a time slice.
    slice: u64,
}

/// A tenant in the plan.
#[derive(Debug)]
pub(super) struct PlannedTenant<'a> {
    pub(super) id: &'a TenantId,
    pub(super) state: &'a Tenant,
    pub(super) portion: Portion,
    /// The decayed usage by weight.
    weighted_usage: i128,
    /// What the tenant gets of each resource.
    pub(super) target: Vec<u64>,
    /// The jobs that get workers.
    pub(super) target_jobs: u64,
    /// What the tenant's jobs hold now of each resource.
    pub(super) held: Vec<u64>,
    pub(super) held_jobs: u64,
    /// The hard quota of each resource.
    pub(super) limits: Vec<u64>,
    pub(super) jobs_limit: u64,
    /// The guarantee of each resource. `u64::MAX` if there is none.
    pub(super) guaranteed: Vec<u64>,
    /// The sums of this month that have reached their hard quotas, of those that jobs with and without GPUs add to.
    with_gpus_used_up: Option<MonthSum>,
    without_gpus_used_up: Option<MonthSum>,
    /// The part of the cluster to which the tenant's weight entitles it, in the unit of [`WHOLE`].
    pub(super) fair: u64,
    /// How many jobs have work.
    pub(super) active_jobs: u64,
    pub(super) queued_jobs: u64,
}

/// The tables.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) dimensions: Dimensions,
    pub(super) capacity: Vec<u64>,
    /// What newcomers' reservation leaves of the capacity.
    pub(super) unreserved: Vec<u64>,
    /// In the order of the state's jobs.
    pub(super) jobs: Vec<PlannedJob>,
    /// In the order of the state's tenants.
    pub(super) tenants: Vec<PlannedTenant<'a>>,
    pub(super) users: Vec<Portion>,
    pub(super) sizes: Vec<PlannedSize>,
}

impl<'a> Table<'a> {
    pub(super) fn new(state: &'a State, now: Duration) -> Self {
        let dimensions = Dimensions::of_state(state);
        let capacity = dimensions.list(&state.capacity);
        let tenants = state.tenants.iter();
        let tenants =
            tenants.map(|(id, tenant)| PlannedTenant::new(id, tenant, &dimensions, state, now));
        let mut table = Self {
            unreserved: capacity.clone(),
            capacity,
            jobs: Vec::with_capacity(state.jobs.len()),
            tenants: tenants.collect(),
            users: Vec::new(),
            sizes: Vec::new(),
            dimensions,
        };
        table.add_jobs(state, now);
        table.divide(state);
        table
    }

    fn add_jobs(&mut self, state: &'a State, now: Duration) {
        // Nothing iterates over these maps, so that their order does not matter.
        let tenants: HashMap<_, _> = state.tenants.keys().zip(0_usize..).collect();
        let mut users: HashMap<(usize, &UserId), usize> = HashMap::new();
        let mut sizes: HashMap<&SlotSize, usize> = HashMap::new();
        for job in state.jobs.values() {
            let tenant = tenants[&job.tenant];
            let user = *users.entry((tenant, &job.user)).or_insert_with(|| {
                let usage = self.tenants[tenant].state.users.get(&job.user);
                let usage = usage.map_or(0, |usage| state.usage(usage, now));
                self.users.push(Portion::new(usage, self.dimensions.count()));
                self.users.len() - 1
            });
            let size = *sizes.entry(&job.slot).or_insert_with(|| {
                self.sizes.push(PlannedSize::new(&job.slot, &self.dimensions, state));
                self.sizes.len() - 1
            });
            self.add_job(job, [tenant, user, size], state, now);
        }
    }

    fn add_job(
        &mut self,
        job: &Job,
        [tenant, user, size]: [usize; 3],
        state: &State,
        now: Duration,
    ) {
        let held = job.held();
        let owner = &mut self.tenants[tenant];
        add(&mut owner.held, &self.sizes[size].need, held);
        owner.held_jobs += u64::from(held > 0);
        owner.queued_jobs += u64::from(held == 0);
        owner.active_jobs += u64::from(held > 0 || job.most_workers > 0);
        let steps = millis(job.waited(now)) / millis(state.settings.ageing_step).max(1);
        self.jobs.push(PlannedJob {
            tenant,
            user,
            size,
            class: job.priority.class().saturating_add(steps),
            sequence: job.sequence,
            is_overdue: steps > 0,
            most: job.most_workers,
            minimum: job.minimum(),
            held,
            target: 0,
            refusal: Refusal::NothingToDo,
        });
    }

    /// Computes the fair shares and the reservation, which depend on the jobs of all tenants.
    fn divide(&mut self, state: &State) {
        let active = || self.tenants.iter().filter(|tenant| tenant.active_jobs > 0);
        let weights: u128 = active().map(|tenant| u128::from(tenant.weight())).sum();
        let count = active().count();
        for tenant in &mut self.tenants {
            let fair = u128::from(WHOLE) * u128::from(tenant.weight());
            tenant.fair =
                fair.checked_div(weights).map_or(0, |fair| fair.try_into().unwrap_or(WHOLE));
        }
        let reserved = reserved(&self.capacity, state.settings.newcomers_percent, count);
        for (unreserved, reserved) in self.unreserved.iter_mut().zip(reserved) {
            *unreserved -= reserved;
        }
    }

    /// Adds workers of a job to the plan.
    pub(super) fn take(&mut self, index: usize, workers: u64) {
        let job = &mut self.jobs[index];
        let tenant = &mut self.tenants[job.tenant];
        let size = &self.sizes[job.size];
        tenant.target_jobs += u64::from(job.target == 0);
        job.target += workers;
        add(&mut tenant.target, &size.need, workers);
        tenant.portion.take(size, workers);
        self.users[job.user].take(size, workers);
    }
}

/// Dividing a `u64` is much faster than dividing a `u128`.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The reservation for newcomers while this many tenants have jobs. A reservation of less than one worker is dropped.
fn reserved(capacity: &[u64], percent: u32, tenants: usize) -> Vec<u64> {
    let mut reserved = capacity.to_vec();
    let percent = u128::from(percent.min(99));
    for _ in 0..tenants {
        if reserved[WORKERS] == 0 {
            break;
        }
        for amount in &mut reserved {
            *amount = u64::try_from(u128::from(*amount) * percent / 100).unwrap_or(0);
        }
    }
    if tenants == 0 || reserved[WORKERS] == 0 { vec![0; capacity.len()] } else { reserved }
}

impl Portion {
    fn new(usage: u64, dimensions: usize) -> Self {
        Self { parts: vec![0; dimensions], dominant: 0, workers: 0, usage }
    }

    fn take(&mut self, size: &PlannedSize, workers: u64) {
        add(&mut self.parts, &size.part, workers);
        self.dominant = self.parts.iter().copied().max().unwrap_or(0);
        self.workers = self.workers.saturating_add(workers);
    }

    /// The largest part of a resource with this many more workers.
    pub(super) fn dominant_with(&self, size: &PlannedSize, workers: u64) -> u64 {
        let parts = self.parts.iter().zip(&size.part);
        let sums = parts.map(|(sum, part)| sum.saturating_add(part.saturating_mul(workers)));
        sums.max().unwrap_or(0)
    }
}

impl PlannedJob {
    /// How many workers the job gets next, if it gets any.
    pub(super) fn step(&self) -> u64 {
        if self.target == 0 { self.minimum } else { 1 }
    }

    /// The usage that is not counted when equal shares contend, because the job holds its next workers already.
    pub(super) fn bonus(&self, size: &PlannedSize) -> u64 {
        if self.target + self.step() <= self.held { size.slice } else { 0 }
    }
}

impl PlannedSize {
    fn new(slot: &SlotSize, dimensions: &Dimensions, state: &State) -> Self {
        let mut one = Resources::default();
        one.add(slot, 1);
        let need = dimensions.list(&one);
        let part = |(need, whole): (&u64, &u64)| {
            let part = (u128::from(*need) * u128::from(WHOLE)).checked_div(u128::from(*whole));
            part.map_or(if *need > 0 { WHOLE } else { 0 }, |part| part.try_into().unwrap_or(WHOLE))
        };
        let part = need.iter().zip(&dimensions.list(&state.capacity)).map(part).collect();
        let uses_gpus = (0..need.len()).any(|index| Dimensions::is_gpu(index) && need[index] > 0);
        let share = one.dominant_billionths(&state.capacity);
        let slice = DecayedUsage::units(share, state.settings.time_slice);
        Self { need, part, uses_gpus, slice }
    }
}

impl<'a> PlannedTenant<'a> {
    fn new(
        id: &'a TenantId,
        tenant: &'a Tenant,
        dimensions: &Dimensions,
        state: &State,
        now: Duration,
    ) -> Self {
        let quotas = &tenant.settings.quotas;
        let count = dimensions.count();
        let mut limits = vec![u64::MAX; count];
        for (resource, limit) in quotas.held() {
            if let (Some(index), Strictness::Hard) = (dimensions.index(&resource), limit.strictness)
            {
                limits[index] = limit.amount;
            }
        }
        let usage = state.usage(&tenant.decayed, now);
        let guaranteed = dimensions.list(&tenant.settings.guaranteed);
        Self {
            id,
            state: tenant,
            portion: Portion::new(usage, count),
            weighted_usage: by_weight(usage, tenant.settings.weight.get()),
            target: vec![0; count],
            target_jobs: 0,
            held: vec![0; count],
            held_jobs: 0,
            limits,
            jobs_limit: hard(quotas.running_jobs).unwrap_or(u64::MAX),
            guaranteed: guaranteed
                .into_iter()
                .map(|amount| if amount == 0 { u64::MAX } else { amount })
                .collect(),
            with_gpus_used_up: used_up(tenant, true, now),
            without_gpus_used_up: used_up(tenant, false, now),
            fair: 0,
            active_jobs: 0,
            queued_jobs: 0,
        }
    }

    pub(super) fn weight(&self) -> u32 {
        self.state.settings.weight.get()
    }

    /// The share by weight, and the usage by weight. The tenant whose next job leads to the least is next.
    pub(super) fn key(&self, next: &PlannedJob, size: &PlannedSize) -> (u64, i128) {
        // Shares are at most 2^40.
        let share = (self.portion.dominant << 20) / u64::from(self.weight());
        // The division takes long, and most jobs get no bonus.
        let bonus = next.bonus(size);
        let bonus = if bonus == 0 { 0 } else { by_weight(bonus, self.weight()) };
        (share, self.weighted_usage - bonus)
    }

    /// The fair share in millionths.
    pub(super) fn fair_millionths(&self) -> u64 {
        // Rounds to the nearest, because `fair` itself is rounded down.
        (self.fair * 1_000_000 + WHOLE / 2) / WHOLE
    }

    /// The limit of a sum of this month, and the sum.
    pub(super) fn month(&self, sum: MonthSum, now: Duration) -> Option<(Limit, QuotaExcess)> {
        month(self.state, sum, now)
    }

    /// The sum of this month that has reached its hard quota, so that jobs of this size cannot go on.
    pub(super) fn used_up(&self, size: &PlannedSize) -> Option<MonthSum> {
        if size.uses_gpus { self.with_gpus_used_up } else { self.without_gpus_used_up }
    }
}

fn month(tenant: &Tenant, sum: MonthSum, now: Duration) -> Option<(Limit, QuotaExcess)> {
    let quotas = &tenant.settings.quotas;
    let month = tenant.month.at(now);
    let (quota, limit, used) = match sum {
        MonthSum::Cpu => (Quota::CpuSeconds, quotas.cpu_seconds, month.cpu_time.as_secs()),
        MonthSum::Gpu => (Quota::GpuSeconds, quotas.gpu_seconds, month.gpu_time.as_secs()),
        MonthSum::Fuel => (Quota::Fuel, quotas.fuel, month.fuel),
    };
    let limit = limit?;
    let resets_at = Some(month.resets_at());
    Some((limit, QuotaExcess { quota, limit: limit.amount, used, asked: 0, resets_at }))
}

fn used_up(tenant: &Tenant, uses_gpus: bool, now: Duration) -> Option<MonthSum> {
    [MonthSum::Cpu, MonthSum::Gpu, MonthSum::Fuel].into_iter().find(|sum| {
        let is_relevant = uses_gpus || *sum != MonthSum::Gpu;
        let is_used_up = |(limit, excess): (Limit, QuotaExcess)| {
            limit.strictness == Strictness::Hard && excess.used >= limit.amount
        };
        is_relevant && month(tenant, *sum, now).is_some_and(is_used_up)
    })
}

fn by_weight(usage: u64, weight: u32) -> i128 {
    (i128::from(usage) << 20) / i128::from(weight)
}

/// The amount of a hard limit.
fn hard(limit: Option<Limit>) -> Option<u64> {
    limit.filter(|limit| limit.strictness == Strictness::Hard).map(|limit| limit.amount)
}
