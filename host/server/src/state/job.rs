//! Jobs as the server knows them.

use super::script::ScriptDigest;
use crate::names::{JobId, TenantName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a job does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobPhase {
    /// It waits until the server starts it.
    Queued,
    /// Its processes run.
    Running,
    /// It was paused. What is committed is kept.
    Paused,
    /// It ended well.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl JobPhase {
    /// All phases with their names.
    pub(crate) const NAMED: [(&'static str, Self); 6] = [
        ("queued", Self::Queued),
        ("running", Self::Running),
        ("paused", Self::Paused),
        ("completed", Self::Completed),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
    ];

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, phase)| *phase == self).map_or("", |(name, _)| name)
    }

    /// Whether the job has ended. It may begin again if it is resumed.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What a user wants of a job that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobWish {
    /// It should run to its end.
    Run,
    /// It should finish its running mini-batches, and wait until it is resumed.
    Pause,
    /// It should finish its running mini-batches, and end.
    Cancel,
    /// It should end its running mini-batches, and end.
    CancelAtOnce,
}

impl JobWish {
    /// All wishes with their names.
    pub(crate) const NAMED: [(&'static str, Self); 4] = [
        ("run", Self::Run),
        ("pause", Self::Pause),
        ("cancel", Self::Cancel),
        ("cancel_at_once", Self::CancelAtOnce),
    ];

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, wish)| *wish == self).map_or("", |(name, _)| name)
    }
}

/// What one worker of a job needs, and how many workers it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerNeeds {
    /// The most workers that the job wants.
    pub workers: u32,
    /// The bytes of memory that each of them may use.
    pub memory: u64,
    /// The GPUs of all its workers together.
    pub gpus: u32,
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobCounts {
    /// The mini-batches that are known so far.
    pub(crate) planned: u64,
    /// Whether all mini-batches are known.
    pub(crate) planning_finished: bool,
    /// The mini-batches that succeeded.
    pub(crate) succeeded: u64,
    /// The mini-batches that failed for good.
    pub(crate) failed: u64,
    /// The items of the mini-batches that ended.
    pub(crate) items: u64,
    /// The items that succeeded.
    pub(crate) items_succeeded: u64,
    /// The items that failed.
    pub(crate) items_failed: u64,
    /// The committed rows.
    pub(crate) rows: u64,
}

/// A job that a tenant has submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRecord {
    /// The id.
    pub(crate) id: JobId,
    /// The tenant to which it belongs.
    pub(crate) tenant: TenantName,
    /// The name in its job file.
    pub(crate) name: String,
    /// What it does.
    pub(crate) phase: JobPhase,
    /// What the user wants.
    pub(crate) wish: JobWish,
    /// Jobs of the tenant with a higher priority start first.
    pub(crate) priority: i32,
    /// What the user has noted about the job.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its entry script. `None` if the job file names one on the server's machine.
    pub(crate) script: Option<ScriptDigest>,
    /// What its workers need.
    pub(crate) needs: WorkerNeeds,
    /// Who submitted it: `token:ID`.
    pub(crate) submitted_by: String,
    /// When it was submitted.
    pub(crate) submitted: Timestamp,
    /// When it was started first.
    pub(crate) began: Option<Timestamp>,
    /// When it ended.
    pub(crate) ended: Option<Timestamp>,
    /// Why it failed or was cancelled. Otherwise empty.
    pub(crate) reason: String,
    /// How often its processes were started.
    pub(crate) starts: u32,
    /// How often in a row its processes ended before the job, without an ended mini-batch.
    pub(crate) losses: u32,
    /// The id of the run that the job's directory named before its processes were started last. Empty if it had not begun.
    pub(crate) earlier_run: String,
    /// How far it had come when its processes ended last.
    pub(crate) counts: JobCounts,
    /// Incremented by each change.
    pub(crate) version: u64,
}

/// Which jobs to list. An empty part matches every job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFilter {
    /// Only jobs of this tenant.
    pub(crate) tenant: Option<TenantName>,
    /// Only jobs in one of these phases.
    pub(crate) phases: Vec<JobPhase>,
    /// Only jobs whose names contain this text.
    pub(crate) name: Option<String>,
    /// Only jobs with this label.
    pub(crate) label: Option<(String, String)>,
}
