//! Random events.

use super::checks::Memory;
use super::dice::SimulationRandom;
use super::world::{KINDS, SimulatedWorld};
use crate::{
    GpuKind, JobId, JobRequest, Limit, Priority, Quotas, Resources, ShareError, ShareSettings,
    Shares, SlotSize, TenantId, TenantSettings,
};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

const PRIORITIES: [Priority; 4] =
    [Priority::Low, Priority::Normal, Priority::High, Priority::Urgent];
const TENANTS: [&str; 6] = ["ant", "bee", "cat", "dog", "elk", "fox"];

/// A random schedule.
#[derive(Debug)]
pub(super) struct Schedule {
    random: SimulationRandom,
    world: SimulatedWorld,
    full: Resources,
    submitted: u64,
    /// The state that a restarted server may find, and the sums of the month that it has.
    stored: Option<(Shares, SimulatedWorld)>,
    has_guarantees: bool,
    pub(super) memory: Memory,
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = SimulationRandom::new(seed);
        let settings = ShareSettings {
            newcomers_percent: *random.pick(&[0, 10, 10, 50]).expect("one of four"),
            time_slice: Duration::from_secs(random.below(120)),
            ..ShareSettings::default()
        };
        let full = random_capacity(&mut random);
        let mut world = SimulatedWorld::new(settings, full.clone());
        world.is_slow = random.one_in(4);
        let has_guarantees = random.one_in(4);
        let mut schedule = Self {
            random,
            world,
            full,
            submitted: 0,
            stored: None,
            has_guarantees,
            memory: Memory::default(),
        };
        let tenants = schedule.random.between(1, TENANTS.len() as u64);
        for tenant in TENANTS.iter().take(usize::try_from(tenants).expect("at most 6")) {
            schedule.change_tenant(tenant);
        }
        schedule
    }

    /// One random event. Then the machine shares.
    pub(super) fn step(&mut self) {
        match self.random.below(40) {
            0..8 => self.submit(),
            8..10 => self.pass_time(),
            10 => self.change_capacity(),
            11 => {
                let tenants: Vec<TenantId> = self.world.tenants.keys().cloned().collect();
                let tenant = self.random.pick(&tenants).expect("there are tenants").clone();
                self.change_tenant(tenant.as_str());
            }
            12 => self.cancel(),
            13 => self.pause(),
            14 => self.change_priority(),
            15 => self.restart(),
            16 => self.store(),
            17..20 => self.deliver_one(),
            _ => self.end_mini_batches(),
        }
        self.share();
    }

    fn share(&mut self) {
        self.world.decide();
        self.world.check(&mut self.memory);
        if !self.world.is_slow || self.random.one_in(4) {
            self.world.deliver();
        }
    }

    fn end_mini_batches(&mut self) {
        if let Some(end) = self.world.next_end() {
            self.world.advance(end.max(self.world.now));
        }
    }

    /// Seconds pass, and seldom hours.
    fn pass_time(&mut self) {
        let seconds = if self.random.one_in(20) { 8 * 60 * 60 } else { self.random.below(10) };
        let then = self.world.now + Duration::from_secs(seconds);
        while let Some(end) = self.world.next_end().filter(|end| *end <= then) {
            self.world.advance(end);
            self.share();
        }
        self.world.advance(then);
    }

    fn submit(&mut self) {
        let tenants: Vec<TenantId> = self.world.tenants.keys().cloned().collect();
        let random = &mut self.random;
        let most_workers = if random.one_in(3) { 1 } else { random.between(1, 12) };
        let gpus = if random.one_in(3) {
            let kind = GpuKind::from(*random.pick(&KINDS).expect("two kinds"));
            BTreeMap::from([(kind, random.between(1, 2))])
        } else {
            BTreeMap::new()
        };
        let request = JobRequest {
            id: format!("job {:04}", self.submitted).into(),
            tenant: random.pick(&tenants).expect("there are tenants").clone(),
            user: random.pick(&[None, Some("x".into()), Some("y".into())]).cloned().flatten(),
            priority: *random.pick(&PRIORITIES).expect("four priorities"),
            slot: SlotSize { memory: random.between(1, 6), cpu: random.below(3) * 500, gpus },
            most_workers,
            minimum_workers: if random.one_in(4) { random.between(2, 6) } else { 1 },
        };
        let mini_batches = random.between(1, 25);
        let length = Duration::from_secs(random.between(1, 60));
        match self.world.submit(request, mini_batches, length) {
            Ok(()) => self.stored = None,
            Err(error) => assert!(matches!(error, ShareError::Quota { .. }), "{error}"),
        }
        self.submitted += 1;
    }

    fn change_capacity(&mut self) {
        let mut capacity = self.full.clone();
        // A part of the nodes is lost, or all nodes are there again.
        if self.random.one_in(2) {
            let left = self.random.below(5);
            capacity.workers = capacity.workers * left / 4;
            capacity.memory = capacity.memory * left / 4;
            capacity.cpu = capacity.cpu * left / 4;
            capacity.gpus.values_mut().for_each(|count| *count = *count * left / 4);
        }
        self.world.set_capacity(capacity);
        SimulatedWorld::forget_waits(&mut self.memory);
    }

    fn change_tenant(&mut self, tenant: &str) {
        let random = &mut self.random;
        let weight = NonZeroU32::new(u32::try_from(random.between(1, 4)).expect("small"));
        let mut settings = TenantSettings {
            weight: weight.expect("at least 1"),
            quotas: random_quotas(random),
            ..TenantSettings::default()
        };
        if self.has_guarantees && random.one_in(2) {
            settings.guaranteed.workers = random.below(6);
            settings.guaranteed.gpus.insert(KINDS[0].into(), random.below(3));
        }
        self.world.set_tenant(tenant, settings);
        SimulatedWorld::forget_waits(&mut self.memory);
    }

    fn any_job(&mut self) -> Option<JobId> {
        let ids: Vec<JobId> = self.world.jobs.keys().cloned().collect();
        self.random.pick(&ids).cloned()
    }

    fn cancel(&mut self) {
        if let Some(id) = self.any_job() {
            self.world.shares.end(&id).expect("it exists");
            self.world.jobs.remove(&id);
        }
    }

    fn pause(&mut self) {
        if let Some(id) = self.any_job() {
            let job = self.world.jobs.get_mut(&id).expect("it exists");
            job.is_paused = !job.is_paused;
            self.world.report(&id);
        }
    }

    fn change_priority(&mut self) {
        if let Some(id) = self.any_job() {
            let priority = *self.random.pick(&PRIORITIES).expect("four priorities");
            self.world.shares.set_priority(&id, priority).expect("it exists");
            self.world.jobs.get_mut(&id).expect("it exists").request.priority = priority;
        }
    }

    fn deliver_one(&mut self) {
        if let Some(id) = self.any_job() {
            let job = self.world.jobs.get_mut(&id).expect("it exists");
            // An older report arrives late.
            let older = job.reported / 2;
            let now = self.world.now;
            job.receive(now);
            self.world.shares.gave_back(&id, older, now).expect("it exists");
            self.world.report(&id);
        }
    }

    /// The server stores its state.
    fn store(&mut self) {
        self.stored = Some((self.world.shares.clone(), self.world.clone()));
    }

    /// The server restarts, with its present state or with an older one. In the second case, the jobs report.
    fn restart(&mut self) {
        self.memory.counts.restarts += 1;
        let text = serde_json::to_string(&self.world.shares).expect("it can be written");
        let restored: Shares = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(restored, self.world.shares);
        self.world.shares = restored;
        let Some((stored, then)) = self.stored.take() else { return };
        let world = &mut self.world;
        world.shares = stored;
        world.month = then.month;
        world.shares.set_capacity(world.capacity.clone());
        for (tenant, settings) in &world.tenants {
            world.shares.set_tenant(tenant, settings.clone());
        }
        for ended in then.jobs.keys().filter(|id| !world.jobs.contains_key(*id)) {
            world.shares.end(ended).expect("it exists");
        }
        for (id, job) in &mut world.jobs {
            // The leader reports what it received. What the server sent to it has been lost.
            job.sent = None;
            let stored = then.jobs[id].granted_at_most();
            job.granted = job.granted.max(stored);
            world
                .shares
                .reconnected(id, job.granted, job.given_back, world.now)
                .expect("it exists");
            world.shares.set_priority(id, job.request.priority).expect("it exists");
            job.reported = job.given_back;
            job.reported_most = job.most();
            world.shares.set_most_workers(id, job.reported_most).expect("it exists");
        }
        SimulatedWorld::forget_waits(&mut self.memory);
    }

    /// Nothing hinders the jobs any longer, so that they end.
    pub(super) fn settle(&mut self) {
        self.world.is_slow = false;
        self.world.set_capacity(self.full.clone());
        let tenants: Vec<TenantId> = self.world.tenants.keys().cloned().collect();
        for tenant in tenants {
            self.world.set_tenant(tenant.as_str(), TenantSettings::default());
        }
        self.world.jobs.values_mut().for_each(|job| job.is_paused = false);
        SimulatedWorld::forget_waits(&mut self.memory);
        self.world.deliver();
        self.share();
        while self.world.next_end().is_some() {
            self.end_mini_batches();
            self.share();
        }
        for id in self.world.jobs.keys() {
            let waiting = self.world.grants.waiting.iter().find(|waiting| waiting.job == *id);
            let reason = waiting.map(|waiting| &waiting.reason);
            let is_too_large = matches!(reason, Some(crate::WaitReason::TooLarge { .. }));
            assert!(is_too_large, "{id} never ends: {reason:?}");
        }
    }
}

fn random_capacity(random: &mut SimulationRandom) -> Resources {
    let workers = random.between(1, 24);
    let gpus = KINDS.map(|kind| (kind.into(), random.below(6)));
    Resources {
        workers,
        memory: workers * random.between(2, 8),
        cpu: workers * 500 * random.between(1, 3),
        gpus: gpus.into_iter().filter(|(_, count)| *count > 0).collect(),
    }
}

fn random_quotas(random: &mut SimulationRandom) -> Quotas {
    let mut limit = |most: u64| {
        let amount = random.between(1, most);
        let limit = if random.one_in(3) { Limit::soft(amount) } else { Limit::hard(amount) };
        random.one_in(5).then_some(limit)
    };
    Quotas {
        queued_jobs: limit(8),
        running_jobs: limit(4),
        workers: limit(12),
        memory: limit(40),
        cpu: limit(10_000),
        gpus: limit(3).map(|limit| (KINDS[0].into(), limit)).into_iter().collect(),
        cpu_seconds: limit(3000),
        gpu_seconds: limit(1000),
        fuel: limit(100_000),
    }
}
