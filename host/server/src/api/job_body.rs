//! A job as the API shows it.

use crate::app::Server;
use crate::jobs::WhyWaiting;
use crate::names::{JobId, TenantName};
use crate::state::{JobCounts, JobPhase, JobRecord, JobWish, ScriptDigest, WorkerNeeds};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct JobBody {
    /// The id.
    #[schema(value_type = String)]
    pub(crate) id: JobId,
    /// The tenant to which it belongs.
    #[schema(value_type = String)]
    pub(crate) tenant: TenantName,
    /// The name in its job file.
    pub(crate) name: String,
    /// What it does.
    pub(crate) phase: JobPhase,
    /// What its user wants. It differs from the phase until the job has done it.
    pub(crate) wish: JobWish,
    /// Jobs of the tenant with a higher priority start first.
    pub(crate) priority: i32,
    /// What the user has noted about it.
    pub(crate) labels: BTreeMap<String, String>,
    /// The digest of its entry script, if it was uploaded.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) component: Option<ScriptDigest>,
    /// What its workers need.
    pub(crate) needs: WorkerNeeds,
    /// Who submitted it.
    pub(crate) submitted_by: String,
    /// When it was submitted.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) submitted: Timestamp,
    /// When it was started first. Absent before that.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Timestamp>,
    /// When it ended. Absent before that.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
    /// Why it failed or was cancelled.
    pub(crate) reason: String,
    /// How often its processes were started.
    pub(crate) starts: u32,
    /// How far it has come.
    pub(crate) counts: JobCounts,
    /// Why it waits, for people. Absent if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<String>,
    /// What its events say. Absent in lists.
    #[serde(flatten)]
    pub(crate) progress: ProgressBody,
}

/// What a job's events say about its progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct ProgressBody {
    /// The mini-batches that end in a second. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    /// The seconds until it ends at this rate. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_left: Option<f64>,
    /// When its processes last wrote something about it. Absent in lists.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_word: Option<Timestamp>,
    /// The first failure of a mini-batch. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_failure: Option<FirstFailureBody>,
}

/// The first failure in a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FirstFailureBody {
    /// The mini-batch. Absent if `init` failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mini_batch: Option<u64>,
    /// The kind, as in events.
    pub(crate) kind: String,
    /// Why.
    pub(crate) message: String,
}

impl JobBody {
    /// The job as lists show it.
    pub(crate) fn new(server: &Server, job: &JobRecord) -> Self {
        let waits = server.keeper.why_waiting(&job.id).filter(|_| job.phase == JobPhase::Queued);
        Self {
            id: job.id.clone(),
            tenant: job.tenant.clone(),
            name: job.name.clone(),
            phase: job.phase,
            wish: job.wish,
            priority: job.priority,
            labels: job.labels.clone(),
            component: job.script.clone(),
            needs: job.needs,
            submitted_by: job.submitted_by.clone(),
            submitted: job.submitted,
            began: job.began,
            ended: job.ended,
            reason: job.reason.clone(),
            starts: job.starts,
            counts: job.counts,
            waits: waits.map(|why| waits_text(&why)),
            progress: ProgressBody::default(),
        }
    }
}

fn waits_text(why: &WhyWaiting) -> String {
    match why {
        WhyWaiting::After { jobs: 0 } => {
            "the server runs as many jobs as it may; this job is the tenant's next one".to_owned()
        }
        WhyWaiting::After { jobs } => {
            format!(
                "the server runs as many jobs as it may; {jobs} jobs of the tenant start before this one"
            )
        }
        WhyWaiting::Quota { most } => {
            format!("{most} jobs of the tenant run, and its quota allows no more (running_jobs)")
        }
        WhyWaiting::WasLost => {
            "its process was lost a moment ago; it is started again in a few seconds".to_owned()
        }
    }
}
