//! A job as its pages show it.

use crate::api::{JobBody, ProgressBody, progress_of};
use crate::jobs::JobView;
use crate::names::now;
use crate::state::{JobCounts, JobPhase, JobWish};
use jiff::Timestamp;
use sandmill_leader::{JobStanding, JobState};
use std::collections::BTreeMap;

/// A job.
#[derive(Clone, Debug)]
pub(super) struct ShownJob {
    /// The id. `None` for `sandmill portal`.
    pub(super) id: Option<String>,
    /// The name in its job file.
    pub(super) name: String,
    /// The tenant. Empty if it is not known.
    pub(super) tenant: String,
    /// What it does, in one word.
    pub(super) phase: &'static str,
    /// Whether its processes run.
    pub(super) is_running: bool,
    /// Whether nothing more happens in it, unless a user resumes it.
    pub(super) has_ended: bool,
    /// What its user wants.
    pub(super) wish: JobWish,
    /// Its priority. `None` for `sandmill portal`.
    pub(super) priority: Option<i32>,
    /// What its user has noted about it.
    pub(super) labels: BTreeMap<String, String>,
    /// The digest of its entry script, if it was uploaded.
    pub(super) component: Option<String>,
    /// Who submitted it. `None` for `sandmill portal`.
    pub(super) submitted_by: Option<String>,
    /// When it was submitted. `None` for `sandmill portal`.
    pub(super) submitted: Option<Timestamp>,
    /// When it was started first.
    pub(super) began: Option<Timestamp>,
    /// When it ended.
    pub(super) ended: Option<Timestamp>,
    /// Why it failed or was cancelled. May be empty.
    pub(super) reason: String,
    /// How far it has come.
    pub(super) counts: JobCounts,
    /// Why it waits.
    pub(super) waits: Option<String>,
    /// What its events say.
    pub(super) progress: ProgressBody,
}

impl From<JobBody> for ShownJob {
    fn from(body: JobBody) -> Self {
        Self {
            id: Some(body.id.to_string()),
            name: body.name,
            tenant: body.tenant.to_string(),
            phase: body.phase.name(),
            is_running: body.phase == JobPhase::Running,
            has_ended: body.phase.has_ended(),
            wish: body.wish,
            priority: Some(body.priority),
            labels: body.labels,
            component: body.component.map(|digest| digest.to_string()),
            submitted_by: Some(body.submitted_by),
            submitted: Some(body.submitted),
            began: body.began,
            ended: body.ended,
            reason: body.reason,
            counts: body.counts,
            waits: body.waits,
            progress: body.progress,
        }
    }
}

impl ShownJob {
    /// The job of a job directory. `is_locked`: whether a process holds the directory.
    pub(super) fn in_directory(state: JobState, is_locked: bool, view: &JobView) -> Self {
        let phase = match (is_locked, state.status) {
            (true, _) => "running",
            (false, JobStanding::Running) => "interrupted",
            // The results are not all at their address.
            (false, _) if state.is_unpublished => "interrupted",
            (false, JobStanding::Completed) => "completed",
            (false, JobStanding::Failed) => "failed",
            (false, JobStanding::Cancelled) => "cancelled",
        };
        let result = state.result.filter(|_| !is_locked && !state.is_unpublished);
        Self {
            id: None,
            name: state.name,
            tenant: state.started_by.map(|by| by.tenant).unwrap_or_default(),
            phase,
            is_running: is_locked,
            has_ended: !is_locked,
            wish: JobWish::Run,
            priority: None,
            labels: BTreeMap::new(),
            component: None,
            submitted_by: None,
            submitted: None,
            began: Some(state.begun),
            ended: state.ended,
            reason: result.map(|result| result.reason).unwrap_or_default(),
            counts: view.counts(),
            waits: None,
            progress: progress_of(view, is_locked, now()),
        }
        .waiting_since(view.history().waits_since)
    }

    /// Says that a job that runs waits for other jobs, if it does.
    pub(super) fn waiting_since(mut self, since: Option<Timestamp>) -> Self {
        if self.is_running && since.is_some() && self.waits.is_none() {
            let why = "other jobs use all that this machine gives to jobs; its workers start when one of them ends";
            self.waits = Some(why.to_owned());
        }
        self
    }
}
