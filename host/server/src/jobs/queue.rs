//! Which queued jobs start next. A tenant that runs few jobs, relative to its weight, comes before others. Among the jobs of
//! one tenant, the priority decides, and then the time of submission.

use crate::names::{JobId, TenantName};
use crate::state::{JobRecord, Tenant};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Why a queued job does not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WhyWaiting {
    /// The server runs as many jobs as it may.
    After {
        /// Jobs of the same tenant that start earlier.
        jobs: usize,
    },
    /// The tenant has as many running jobs as it may have.
    Quota {
        /// The most running jobs.
        most: u32,
    },
    /// Its process was lost a moment ago.
    WasLost,
}

/// How many jobs run.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    pub(super) total: usize,
    by_tenant: BTreeMap<TenantName, u32>,
}

impl Running {
    /// Counts a job that runs.
    pub(super) fn add(&mut self, job: &JobRecord) {
        self.total += 1;
        *self.by_tenant.entry(job.tenant.clone()).or_default() += 1;
    }

    fn of(&self, tenant: &TenantName) -> u32 {
        self.by_tenant.get(tenant).copied().unwrap_or_default()
    }
}

/// A job that has not begun rises by one priority each time that it has waited this long.
const AGEING: SignedDuration = SignedDuration::from_hours(6);

/// The jobs that start now, and why the others wait. So many run at the same time that `most` is reached. A tenant without a
/// running job may run one even then, so that no tenant keeps the others out, but never more than twice `most` run.
pub(super) fn next_jobs(
    queued: &[&JobRecord],
    tenants: &BTreeMap<TenantName, Tenant>,
    mut running: Running,
    most: usize,
    now: Timestamp,
    is_lost: impl Fn(&JobId) -> bool,
) -> (Vec<JobId>, BTreeMap<JobId, WhyWaiting>) {
    let mut waiting = BTreeMap::new();
    let mut by_tenant: BTreeMap<&TenantName, Vec<&JobRecord>> = BTreeMap::new();
    for job in queued {
        match is_lost(&job.id) {
            true => drop(waiting.insert(job.id.clone(), WhyWaiting::WasLost)),
            false => by_tenant.entry(&job.tenant).or_default().push(job),
        }
    }
    let mut queues: BTreeMap<&TenantName, VecDeque<&JobRecord>> = BTreeMap::new();
    for (tenant, mut jobs) in by_tenant {
        jobs.sort_by_key(|job| (-risen_priority(job, now), job.id.clone()));
        queues.insert(tenant, jobs.into());
    }
    let mut chosen = Vec::new();
    while let Some(tenant) = next_tenant(&queues, tenants, &running, most) {
        let Some(job) = queues.get_mut(tenant).and_then(VecDeque::pop_front) else { break };
        running.add(job);
        chosen.push(job.id.clone());
    }
    for (tenant, jobs) in queues {
        let quota = tenants.get(tenant).and_then(|tenant| tenant.quotas.running_jobs);
        let used_up = quota.filter(|most| running.of(tenant) >= *most);
        for (jobs_before, job) in jobs.into_iter().enumerate() {
            let after = WhyWaiting::After { jobs: jobs_before };
            let why = used_up.map_or(after, |most| WhyWaiting::Quota { most });
            waiting.insert(job.id.clone(), why);
        }
    }
    (chosen, waiting)
}

/// The priority of a job with what it gained by waiting.
fn risen_priority(job: &JobRecord, now: Timestamp) -> i64 {
    if job.began.is_some() {
        return job.priority.into();
    }
    let steps = now.duration_since(job.submitted).as_secs() / AGEING.as_secs();
    i64::from(job.priority).saturating_add(steps.max(0))
}

/// The tenant whose next job starts first. `None` if no tenant may start one.
fn next_tenant<'a>(
    queues: &BTreeMap<&'a TenantName, VecDeque<&JobRecord>>,
    tenants: &BTreeMap<TenantName, Tenant>,
    running: &Running,
    most: usize,
) -> Option<&'a TenantName> {
    let may_start = |(name, jobs): &(&&'a TenantName, &VecDeque<&JobRecord>)| {
        let tenant = tenants.get(**name);
        let quota = tenant.and_then(|tenant| tenant.quotas.running_jobs);
        let most = if running.of(name) == 0 { most.saturating_mul(2) } else { most };
        let has_room = running.total < most;
        let is_within_quota = quota.is_none_or(|quota| running.of(name) < quota);
        !jobs.is_empty() && tenant.is_some() && has_room && is_within_quota
    };
    // The part of a tenant that it would have with one more job, in millionths of its weight; then the older job.
    let order = |(name, jobs): &(&&'a TenantName, &VecDeque<&JobRecord>)| {
        let weight = tenants.get(**name).map_or(1, |tenant| tenant.weight.max(1));
        let part = (u64::from(running.of(name)) + 1) * 1_000_000 / u64::from(weight);
        (part, jobs.front().map(|job| job.id.clone()))
    };
    let next = queues.iter().filter(may_start).min_by_key(order);
    next.map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::now;
    use crate::state::{JobCounts, JobPhase, JobWish, Quotas, WorkerNeeds};

    fn job(tenant: &str, priority: i32) -> JobRecord {
        std::thread::sleep(std::time::Duration::from_millis(2));
        JobRecord {
            id: JobId::new(),
            tenant: TenantName::try_from(tenant.to_owned()).unwrap(),
            name: String::new(),
            phase: JobPhase::Queued,
            wish: JobWish::Run,
            priority,
            labels: BTreeMap::new(),
            script: None,
            needs: WorkerNeeds::default(),
            submitted_by: String::new(),
            submitted: now(),
            began: None,
            ended: None,
            reason: String::new(),
            starts: 0,
            losses: 0,
            earlier_run: String::new(),
            counts: JobCounts::default(),
            version: 1,
        }
    }

    fn tenants(given: &[(&str, u32, Option<u32>)]) -> BTreeMap<TenantName, Tenant> {
        let tenant = |(name, weight, running_jobs): &(&str, u32, Option<u32>)| {
            let name = TenantName::try_from((*name).to_owned()).unwrap();
            let quotas = Quotas { running_jobs: *running_jobs, ..Quotas::default() };
            let tenant =
                Tenant { name: name.clone(), weight: *weight, quotas, created: now(), version: 1 };
            (name, tenant)
        };
        given.iter().map(tenant).collect()
    }

    /// One tenant's many jobs, of whatever priority, do not keep another one's single job waiting.
    #[test]
    fn tenants_take_turns_by_their_weights() {
        let known = tenants(&[("a", 1, None), ("b", 1, None), ("c", 2, None)]);
        let mut jobs: Vec<JobRecord> = (0..10).map(|_| job("a", 100)).collect();
        jobs.extend([job("b", 0), job("c", 0), job("c", 0), job("c", 0)]);
        let queued: Vec<&JobRecord> = jobs.iter().collect();
        let (chosen, waiting) = next_jobs(&queued, &known, Running::default(), 4, now(), |_| false);
        let of = |id: &JobId| jobs.iter().find(|job| job.id == *id).unwrap().tenant.to_string();
        let mut started: Vec<String> = chosen.iter().map(of).collect();
        started.sort();
        assert_eq!(started, ["a", "b", "c", "c"]);
        assert_eq!(waiting.len(), 10);
        assert_eq!(waiting[&jobs[13].id], WhyWaiting::After { jobs: 0 });
    }

    /// A tenant whose jobs fill the server keeps no other tenant out.
    #[test]
    fn a_tenant_without_a_running_job_starts_one() {
        let known = tenants(&[("a", 9, None), ("b", 1, None), ("c", 1, None), ("d", 1, None)]);
        let jobs: Vec<JobRecord> = (0..3).map(|_| job("a", 0)).collect();
        let mut running = Running::default();
        jobs.iter().take(2).for_each(|job| running.add(job));
        let others = [job("b", 0), job("b", 0), job("c", 0), job("d", 0)];
        let queued: Vec<&JobRecord> = jobs.iter().skip(2).chain(&others).collect();
        let (chosen, _) = next_jobs(&queued, &known, running, 2, now(), |_| false);
        assert_eq!(chosen, [others[0].id.clone(), others[2].id.clone()]);
    }

    #[test]
    fn a_job_rises_while_it_waits() {
        let known = tenants(&[("a", 1, None)]);
        let jobs = [job("a", 2), job("a", 0)];
        let old = JobRecord { submitted: now() - AGEING * 3, ..jobs[1].clone() };
        let queued = [&jobs[0], &old];
        let (chosen, _) = next_jobs(&queued, &known, Running::default(), 1, now(), |_| false);
        assert_eq!(chosen, std::slice::from_ref(&old.id));
    }

    #[test]
    fn the_priority_decides_among_the_jobs_of_a_tenant() {
        let known = tenants(&[("a", 1, Some(2))]);
        let jobs = [job("a", 0), job("a", -1), job("a", 5), job("a", 0)];
        let queued: Vec<&JobRecord> = jobs.iter().collect();
        let lost = |id: &JobId| *id == jobs[0].id;
        let (chosen, waiting) = next_jobs(&queued, &known, Running::default(), 9, now(), lost);
        assert_eq!(chosen, [jobs[2].id.clone(), jobs[3].id.clone()]);
        assert_eq!(waiting[&jobs[0].id], WhyWaiting::WasLost);
        assert_eq!(waiting[&jobs[1].id], WhyWaiting::Quota { most: 2 });
    }
}
