//! The result of sharing.

use crate::names::{JobId, TenantId};
use crate::quotas::{QuotaExcess, QuotaNotice};
use crate::resources::{Resource, Resources};
use serde::{Deserialize, Serialize};

/// Who may use what from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// The jobs that have workers or may start workers, by id.
    pub running: Vec<Grant>,
    /// The jobs that have no workers and may not start any, by id.
    pub waiting: Vec<WaitingJob>,
    /// The tenants that have jobs, by id.
    pub tenants: Vec<TenantShare>,
    /// The soft quotas that are exceeded.
    pub notices: Vec<QuotaNotice>,
}

/// How many workers a job may use from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The job.
    pub job: JobId,
    /// The job may use so many workers. A job that has more gives one back after each mini-batch that ends, until it
    /// has no more than this. A running mini-batch is never stopped.
    pub allowed: u64,
    /// The workers that the job has, or may start at any time; at least `allowed`. The machine counts them until the
    /// job gives them back.
    pub held: u64,
    /// The part of `held` that this call of [`Shares::share`](crate::Shares::share) added.
    pub added: u64,
    /// The workers that the job got since it was submitted. It starts a worker only if it has started fewer in
    /// total. A worker that replaces a crashed one does not count as started again.
    pub granted: u64,
}

/// A job without workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingJob {
    /// The job.
    pub job: JobId,
    /// Why it waits.
    pub reason: WaitReason,
    /// How many waiting jobs of the same tenant come before this one, by class of priority and submission.
    pub jobs_before: u32,
    /// The share of the job's tenant in the cluster, in millionths: the largest part that it has of any resource.
    pub share_millionths: u64,
    /// The share to which the tenant's weight entitles it, among the tenants that have jobs, in millionths.
    pub fair_share_millionths: u64,
}

/// Why a job has no workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum WaitReason {
    /// The job can use no workers: it is paused, or has no mini-batches yet.
    NothingToDo,
    /// A hard quota of the tenant does not allow the job.
    Quota(QuotaExcess),
    /// The cluster is too small for the job, even when no other job uses it.
    TooLarge {
        /// The resource of which the cluster has too little.
        resource: Resource,
        /// What the job's minimum of workers needs, in the unit of the resource.
        asked: u64,
        /// What the cluster has, in the same unit.
        capacity: u64,
    },
    /// Other jobs come first, and use too much of a resource.
    Busy {
        /// The resource of which too little is left.
        resource: Resource,
        /// What the job's minimum of workers needs, in the unit of the resource.
        asked: u64,
        /// What the jobs that come first leave, in the same unit.
        left: u64,
    },
    /// The job fits only into the part of the cluster that is reserved for tenants without jobs.
    Reserved {
        /// The resource of which too little is left.
        resource: Resource,
        /// What the job's minimum of workers needs, in the unit of the resource.
        asked: u64,
        /// What the jobs that come first leave, apart from the reservation, in the same unit.
        left: u64,
    },
    /// It is the job's turn. It starts as soon as other jobs have given back workers, as their mini-batches end.
    Coming {
        /// The number of workers with which the job will start.
        workers: u64,
    },
}

/// What a tenant has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantShare {
    /// The tenant.
    pub tenant: TenantId,
    /// What its jobs hold.
    pub held: Resources,
    /// Its jobs with workers.
    pub running_jobs: u64,
    /// Its jobs without workers.
    pub queued_jobs: u64,
    /// Its share in the cluster, in millionths: the largest part that it has of any resource.
    pub share_millionths: u64,
    /// The share to which its weight entitles it, among the tenants that have jobs, in millionths.
    pub fair_share_millionths: u64,
    /// Its decayed usage, in billionths of the cluster for one millisecond. While jobs have to give back workers, the usage
    /// when they were taken.
    pub decayed_usage: u64,
}
