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

/// A change of a job: what the audit calls it, and how the record changes. An error says why the job cannot be changed.
struct JobChange<F> {
    action: &'static str,
    detail: String,
    change: F,
}

/// Changes a job that the caller may change.
async fn change_job<F>(
    server: Arc<Server>,
    caller: Caller,
    id: String,
    headers: HeaderMap,
    asked: JobChange<F>,
) -> Result<Response, Problem>
where
    F: Fn(&mut JobRecord) -> Result<(), String> + Send + 'static,
{
    caller.must_have(Scope::WriteJobs)?;
    blocking(move || {
        let found = visible_job(&server, &caller, id)?;
        let JobChange { action, detail, change } = asked;
        let entry = caller.audit(action, Some(&found.tenant), found.id.as_str(), detail);
        let mut refused = None;
        let mut apply = |job: &mut JobRecord| {
            let changed = check_version(&headers, job.version)
                .and_then(|()| change(job).map_err(Problem::conflict));
            refused = changed.err();
            refused.is_none()
        };
        let changed = server.state.change_job(&found.id, &mut apply, Some(&entry))?;
        if let Some(problem) = refused {
            return Err(problem);
        }
        let changed = changed.ok_or_else(|| Problem::not_found("job"))?;
        server.keeper.changed(&changed.id);
        Ok(tagged(changed.version, Json(JobBody::new(&server, &changed))))
    })
    .await
}

fn has_ended(job: &JobRecord) -> Result<(), String> {
    match job.phase.has_ended() {
        true => Err(format!("the job has ended: it is {}", job.phase.name())),
        false => Ok(()),
    }
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
    let wish = if at_once { JobWish::CancelAtOnce } else { JobWish::Cancel };
    let change = move |job: &mut JobRecord| {
        has_ended(job)?;
        job.wish = wish;
        Ok(())
    };
    let detail = if at_once { "at once" } else { "" }.to_owned();
    change_job(server, caller, id, headers, JobChange { action: "job.cancel", detail, change })
        .await
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
    let change = |job: &mut JobRecord| {
        has_ended(job)?;
        if matches!(job.wish, JobWish::Cancel | JobWish::CancelAtOnce) {
            return Err("the job is being cancelled".to_owned());
        }
        job.wish = JobWish::Pause;
        Ok(())
    };
    let asked = JobChange { action: "job.pause", detail: String::new(), change };
    change_job(server, caller, id, headers, asked).await
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
    let change = |job: &mut JobRecord| {
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
    };
    let asked = JobChange { action: "job.resume", detail: String::new(), change };
    let (checked, seen_by, job) = (server.clone(), caller.clone(), id.clone());
    blocking(move || {
        let job = visible_job(&checked, &seen_by, job)?;
        if !job.phase.has_ended() {
            return Ok(());
        }
        // The job counts again.
        let tenant = checked.state.tenant(&job.tenant)?;
        let most = tenant.and_then(|tenant| tenant.quotas.unfinished_jobs);
        let unfinished = checked.state.unfinished_of(&job.tenant)?;
        let is_used_up = most.is_some_and(|most| unfinished >= most);
        (!is_used_up).then_some(()).ok_or_else(|| Problem::unfinished_jobs(unfinished))
    })
    .await?;
    change_job(server, caller, id, headers, asked).await
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
    check_priority(priority)?;
    let change = move |job: &mut JobRecord| {
        has_ended(job)?;
        job.priority = priority;
        Ok(())
    };
    let asked = JobChange { action: "job.priority", detail: priority.to_string(), change };
    change_job(server, caller, id, headers, asked).await
}
