//! Cancels, pauses and resumes jobs, and changes their priorities.

use super::caller::Caller;
use super::extract::{Json, Path, check_version, tagged};
use super::job_body::JobBody;
use super::jobs::visible_job;
use super::submit_body::check_priority;
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{JobPhase, JobRecord, JobWish, Scope};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// How a job is cancelled.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// Ends running mini-batches, too, instead of letting them finish.
    #[serde(default)]
    at_once: bool,
}

/// A new priority.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriorityBody {
    /// Jobs of the tenant with a higher priority start first, -100 to 100.
    #[schema(minimum = -100, maximum = 100)]
    priority: i32,
}

/// A change of a job that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobAction {
    /// Ends the job. Its running mini-batches finish.
    Cancel,
    /// Ends the job with its running mini-batches.
    CancelAtOnce,
    /// Lets the job finish its running mini-batches, and wait.
    Pause,
    /// Lets the job go on.
    Resume,
    /// Changes the job's priority.
    Priority(i32),
}

impl JobAction {
    /// What the audit calls it, and more about it.
    fn audited(self) -> (&'static str, String) {
        match self {
            Self::Cancel => ("job.cancel", String::new()),
            Self::CancelAtOnce => ("job.cancel", "at once".to_owned()),
            Self::Pause => ("job.pause", String::new()),
            Self::Resume => ("job.resume", String::new()),
            Self::Priority(priority) => ("job.priority", priority.to_string()),
        }
    }

    /// Changes the record. An error says why the job cannot be changed.
    fn apply(self, job: &mut JobRecord) -> Result<(), String> {
        match self {
            Self::Cancel => {
                has_ended(job)?;
                job.wish = JobWish::Cancel;
            }
            Self::CancelAtOnce => {
                has_ended(job)?;
                job.wish = JobWish::CancelAtOnce;
            }
            Self::Pause => {
                has_ended(job)?;
                if matches!(job.wish, JobWish::Cancel | JobWish::CancelAtOnce) {
                    return Err("the job is being cancelled".to_owned());
                }
                job.wish = JobWish::Pause;
            }
            Self::Resume => resume(job)?,
            Self::Priority(priority) => {
                has_ended(job)?;
                job.priority = priority;
            }
        }
        Ok(())
    }
}

fn has_ended(job: &JobRecord) -> Result<(), String> {
    match job.phase.has_ended() {
        true => Err(format!("the job has ended: it is {}", job.phase.name())),
        false => Ok(()),
    }
}

fn resume(job: &mut JobRecord) -> Result<(), String> {
    match (job.phase, job.wish) {
        (JobPhase::Completed, _) => {
            return Err("the job is completed: submit it again to run it again".to_owned());
        }
        (JobPhase::Queued | JobPhase::Running, JobWish::Cancel | JobWish::CancelAtOnce) => {
            return Err("the job is being cancelled: resume it when it has ended".to_owned());
        }
        (JobPhase::Queued | JobPhase::Running, _) => {}
        (JobPhase::Paused | JobPhase::Failed | JobPhase::Cancelled, _) => {
            job.phase = JobPhase::Queued;
            job.ended = None;
            job.losses = 0;
            job.reason.clear();
        }
    }
    job.wish = JobWish::Run;
    Ok(())
}

/// Changes a job. Returns it as it is then.
///
/// # Errors
/// If the caller may not do this, if there is no such job, or if the job cannot be changed now.
pub(crate) fn act(
    server: &Server,
    caller: &Caller,
    id: String,
    headers: &HeaderMap,
    action: JobAction,
) -> Result<JobRecord, Problem> {
    caller.must_have(Scope::WriteJobs)?;
    let found = visible_job(server, caller, id)?;
    if let JobAction::Priority(priority) = action {
        check_priority(priority)?;
    }
    if action == JobAction::Resume && found.phase.has_ended() {
        may_count_again(server, &found)?;
    }
    let (name, detail) = action.audited();
    let entry = caller.audit(name, Some(&found.tenant), found.id.as_str(), detail);
    let mut refused = None;
    let mut apply = |job: &mut JobRecord| {
        let changed = check_version(headers, job.version)
            .and_then(|()| action.apply(job).map_err(Problem::conflict));
        refused = changed.err();
        refused.is_none()
    };
    let changed = server.state.change_job(&found.id, &mut apply, Some(&entry))?;
    if let Some(problem) = refused {
        return Err(problem);
    }
    let changed = changed.ok_or_else(|| Problem::not_found("job"))?;
    server.keeper.changed(&changed.id);
    Ok(changed)
}

/// A job that has ended counts as unfinished when it is resumed.
fn may_count_again(server: &Server, job: &JobRecord) -> Result<(), Problem> {
    let tenant = server.state.tenant(&job.tenant)?;
    let most = tenant.and_then(|tenant| tenant.quotas.unfinished_jobs);
    let unfinished = server.state.unfinished_of(&job.tenant)?;
    let is_used_up = most.is_some_and(|most| unfinished >= most);
    (!is_used_up).then_some(()).ok_or_else(|| Problem::unfinished_jobs(unfinished))
}

async fn answer(
    server: Arc<Server>,
    caller: Caller,
    id: String,
    headers: HeaderMap,
    action: JobAction,
) -> Result<Response, Problem> {
    blocking(move || {
        let changed = act(&server, &caller, id, &headers, action)?;
        Ok(tagged(changed.version, Json(JobBody::new(&server, &changed))))
    })
    .await
}

/// Cancels a job. What is committed is kept, and the job can be resumed.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the job must have."),
    ),
    request_body(content = Option<CancelBody>, description = "May be left out."),
    responses((status = 200, body = JobBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn cancel_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: Option<CancelBody> = match body.is_empty() {
        true => None,
        false => {
            serde_json::from_slice(&body).map_err(|error| Problem::invalid(error.to_string()))?
        }
    };
    let at_once = body.unwrap_or_default().at_once;
    let action = if at_once { JobAction::CancelAtOnce } else { JobAction::Cancel };
    answer(server, caller, id, headers, action).await
}

/// Pauses a job: it finishes its running mini-batches, and waits until it is resumed.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/pause", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the job must have."),
    ),
    responses((status = 200, body = JobBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn pause_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer(server, caller, id, headers, JobAction::Pause).await
}

/// Resumes a job that was paused, has failed or was cancelled. What is committed is kept.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/resume", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the job must have."),
    ),
    responses((status = 200, body = JobBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn resume_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer(server, caller, id, headers, JobAction::Resume).await
}

/// Changes the priority of a job.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/priority", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the job must have."),
    ),
    request_body = PriorityBody,
    responses((status = 200, body = JobBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn set_priority(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(PriorityBody { priority }): Json<PriorityBody>,
) -> Result<Response, Problem> {
    answer(server, caller, id, headers, JobAction::Priority(priority)).await
}
