//! Tests of single rules, in small clusters.

mod fairness;
mod gangs;
mod order;
mod quotas;
mod restart;

use crate::simulation::world::SimulatedWorld;
use crate::{
    JobRequest, Priority, Resources, ShareSettings, SlotSize, TenantId, TenantSettings, WaitReason,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const GIB: u64 = 1 << 30;

/// A cluster of this many workers, each with a core and 4 GiB.
fn workers(count: u64) -> Resources {
    Resources { workers: count, memory: count * 4 * GIB, cpu: count * 1000, ..Resources::default() }
}

/// Without a reservation for newcomers.
fn plain() -> ShareSettings {
    ShareSettings { newcomers_percent: 0, ..ShareSettings::default() }
}

fn world(count: u64, tenants: &[&str]) -> SimulatedWorld {
    let mut world = SimulatedWorld::new(plain(), workers(count));
    for tenant in tenants {
        world.set_tenant(tenant, TenantSettings::default());
    }
    world
}

fn request(id: &str, tenant: &str, most_workers: u64) -> JobRequest {
    JobRequest {
        id: id.into(),
        tenant: tenant.into(),
        user: None,
        priority: Priority::Normal,
        slot: SlotSize { memory: 4 * GIB, cpu: 1000, ..SlotSize::default() },
        most_workers,
        minimum_workers: 1,
    }
}

/// Jain's index: 1 if all values are equal, 1/n if one has everything.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    sum * sum / (squares * f64::from(u32::try_from(values.len()).unwrap()))
}

impl SimulatedWorld {
    fn reason(&self, job: &str) -> WaitReason {
        let waiting = self.grants.waiting.iter().find(|waiting| waiting.job.as_str() == job);
        waiting.expect("the job waits").reason.clone()
    }

    /// How many workers a job may use. 0 if it waits.
    fn allowed(&self, job: &str) -> u64 {
        let grant = self.grants.running.iter().find(|grant| grant.job.as_str() == job);
        grant.map_or(0, |grant| grant.allowed)
    }

    fn used_by(&self, tenant: &str) -> f64 {
        self.used[&TenantId::from(tenant)]
    }
}
