//! The errors of this crate.

use crate::names::{JobId, TenantId};
use crate::quotas::QuotaExcess;

/// Why a call failed. A call that fails changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// There are no settings of this tenant.
    #[error("there is no tenant {0}")]
    UnknownTenant(TenantId),
    /// There is no such job, or it has ended.
    #[error("there is no queued or running job {0}")]
    UnknownJob(JobId),
    /// A job with this id is queued or running.
    #[error("a job {0} is queued or running already")]
    DuplicateJob(JobId),
    /// The tenant's hard quota does not allow this job: it allows no more queued jobs, or it never allows the job's
    /// minimum of workers.
    #[error("tenant {tenant}: {excess}")]
    Quota {
        /// The tenant.
        tenant: TenantId,
        /// The quota and its use.
        excess: QuotaExcess,
    },
    /// A job reports that it has given back more workers than it ever got.
    #[error("job {job} gave back {given_back} workers, but got only {granted}")]
    GaveBackTooMany {
        /// The job.
        job: JobId,
        /// The workers that the job got, in total.
        granted: u64,
        /// The workers that the job gave back, in total.
        given_back: u64,
    },
    /// The tenant still has queued or running jobs.
    #[error("tenant {0} still has jobs")]
    TenantHasJobs(TenantId),
}
