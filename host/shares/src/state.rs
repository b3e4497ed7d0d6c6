//! What the machine remembers.

use crate::job::Job;
use crate::names::{JobId, TenantId, UserId};
use crate::resources::Resources;
use crate::settings::{ShareSettings, TenantSettings};
use crate::usage::{DecayedUsage, MonthUsage, Usage};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Everything that a server must store to continue after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) settings: ShareSettings,
    pub(crate) capacity: Resources,
    pub(crate) tenants: BTreeMap<TenantId, Tenant>,
    /// The queued and running jobs.
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// How many jobs were submitted ever.
    pub(crate) submitted: u64,
    /// Since when the usage of tenants and users is held for the order. `None` if the present usage counts.
    #[serde(default)]
    usage_held: Option<Duration>,
    /// The latest time that a caller passed.
    latest: Duration,
}

/// A tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) settings: TenantSettings,
    pub(crate) decayed: DecayedUsage,
    pub(crate) month: MonthUsage,
    /// The usage of each user that counts still.
    pub(crate) users: BTreeMap<UserId, DecayedUsage>,
}

impl State {
    pub(crate) fn new(settings: ShareSettings, capacity: Resources) -> Self {
        Self {
            settings,
            capacity,
            tenants: BTreeMap::new(),
            jobs: BTreeMap::new(),
            submitted: 0,
            usage_held: None,
            latest: Duration::ZERO,
        }
    }

    /// The time that counts: `now`, or the latest time so far if the caller's clock was set back.
    pub(crate) fn advance(&mut self, now: Duration) -> Duration {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Forgets the tenants without jobs whose decayed usage is below that of the whole cluster in a second.
    pub(crate) fn forget_idle_tenants(&mut self, now: Duration) {
        let with_jobs: BTreeSet<&TenantId> = self.jobs.values().map(|job| &job.tenant).collect();
        let half_life = self.settings.half_life;
        self.tenants.retain(|id, tenant| {
            with_jobs.contains(id) || tenant.decayed.at(now, half_life) >= DecayedUsage::SECOND
        });
    }

    /// While jobs have to give back workers, the usage that decided so goes on to count. Otherwise, the plan could choose
    /// another job each time: the tenant whose mini-batch has just ended has used more than before, so that the plan would take
    /// its worker, which has just begun the next mini-batch, and let the other tenants' workers go on. A job that waits for
    /// them could wait for ever.
    pub(crate) fn hold_usage(&mut self, is_taking: bool, now: Duration) {
        if !is_taking {
            self.usage_held = None;
            return;
        }
        let half_life = self.settings.half_life;
        if self.usage_held.is_some_and(|since| now.saturating_sub(since) < half_life) {
            return;
        }
        self.usage_held = Some(now);
        for tenant in self.tenants.values_mut() {
            tenant.decayed.hold(now, half_life);
            tenant.users.values_mut().for_each(|usage| usage.hold(now, half_life));
        }
    }

    /// The usage that counts for the order.
    pub(crate) fn usage(&self, usage: &DecayedUsage, now: Duration) -> u64 {
        match self.usage_held {
            Some(_) => usage.held(),
            None => usage.at(now, self.settings.half_life),
        }
    }

    /// Adds a job of a known tenant. Jobs of one tenant or user share the text of its name, which makes sharing faster.
    pub(crate) fn add_job(&mut self, id: JobId, mut job: Job) {
        if let Some((name, tenant)) = self.tenants.get_key_value(&job.tenant) {
            job.tenant = name.clone();
            if let Some((name, _)) = tenant.users.get_key_value(&job.user) {
                job.user = name.clone();
            }
        }
        self.jobs.insert(id, job);
    }

    pub(crate) fn jobs_of<'a>(&'a self, tenant: &'a TenantId) -> impl Iterator<Item = &'a Job> {
        self.jobs.values().filter(move |job| job.tenant == *tenant)
    }
}

impl Tenant {
    /// Counts usage of this part of the cluster, in billionths.
    pub(crate) fn add_usage(
        &mut self,
        user: &UserId,
        usage: &Usage,
        billionths: u64,
        now: Duration,
        half_life: Duration,
    ) {
        let units = DecayedUsage::units(billionths, usage.wall);
        self.month.add(usage, now);
        self.decayed.add(units, now, half_life);
        if !self.users.contains_key(user) {
            self.users.retain(|_, decayed| decayed.at(now, half_life) > 0);
        }
        self.users.entry(user.clone()).or_default().add(units, now, half_life);
    }
}
