//! Submits jobs.

use super::caller::Caller;
use super::components::script_name;
use super::extract::{Json, Query, tagged};
use super::job_body::JobBody;
use super::router_limits::MOST_JSON;
use super::submit_body::SubmitBody;
use super::submit_form::read_form;
use crate::app::Server;
use crate::jobs::{JOB_FILE, LookAnswer, LookError, SETTINGS_FILE, look};
use crate::names::{JobId, TenantName, now};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{
    JobCounts, JobPhase, JobRecord, JobWish, RequestKey, Scope, Submitted, WorkerNeeds,
};
use crate::uploads::{sync_folder, write_new};
use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::Limited;
use sandmill_files::opening::make_private;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

/// For whom a job is submitted.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SubmitAsked {
    /// For operators: the tenant.
    tenant: Option<String>,
}

/// Submits a job. It starts as soon as the tenant's share allows.
#[utoipa::path(
    post, path = "/v1/jobs", tag = "jobs",
    params(
        SubmitAsked,
        ("Idempotency-Key" = Option<String>, Header, description = "A text of at most 255 characters. A second request with the same key and body submits nothing, and gets the job that the first one submitted."),
    ),
    request_body(
        description = "A job as JSON, or as a form with the parts `job`, `component` (the file of an entry script), `settings`, `priority` and `labels`.",
        content((SubmitBody = "application/json"), (super::submit_form::SubmitForm = "multipart/form-data")),
    ),
    responses(
        (status = 201, body = JobBody, description = "The job was submitted."),
        (status = 200, body = JobBody, description = "An earlier request with this key submitted the job."),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "Another request used this key."),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "The job file has errors. All of them are in `errors`."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn submit_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<SubmitAsked>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    caller.must_have(Scope::WriteJobs)?;
    if server.is_ending() {
        return Err(Problem::ending());
    }
    let tenant = caller.acts_for(asked.tenant.map(TenantName::try_from).transpose()?)?;
    let key = request_key(&headers)?;
    let is_form = headers.get(CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().to_ascii_lowercase().starts_with(b"multipart/form-data")
    });
    let body = match is_form {
        true => read_form(&server, &caller, &tenant, request).await?,
        false => Json::<SubmitBody>::from_request(limited(request), &()).await?.0,
    };
    let permit = may_submit(&server, &body).await?;
    blocking(move || {
        let submitted = submit(&server, &caller, &tenant, &body, key);
        drop(permit);
        let (job, is_new) = submitted?;
        let answer = tagged(job.version, Json(JobBody::new(&server, &job)));
        if !is_new {
            return Ok(answer);
        }
        let location = [("location", format!("/v1/jobs/{}", job.id))];
        Ok((StatusCode::CREATED, location, answer).into_response())
    })
    .await
}

/// Checks everything but the job file, and waits until the job file may be read.
///
/// # Errors
/// If something is not as documented, or if the server ends.
pub(crate) async fn may_submit(
    server: &Server,
    body: &SubmitBody,
) -> Result<OwnedSemaphorePermit, Problem> {
    if server.is_ending() {
        return Err(Problem::ending());
    }
    body.check()?;
    // Each look at a job file is a process.
    let permit = server.looks.clone().acquire_owned().await;
    permit.map_err(|error| Problem::internal(&error))
}

/// The request with the limit of other requests.
fn limited(request: Request) -> Request {
    let (parts, body) = request.into_parts();
    Request::from_parts(parts, Body::new(Limited::new(body, MOST_JSON)))
}

fn request_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text = key.to_str().ok().filter(|text| (1..=255).contains(&text.len()));
    let text = text.ok_or_else(|| {
        Problem::bad_request("Idempotency-Key: expected 1 to 255 visible ASCII characters")
    })?;
    Ok(Some(text.to_owned()))
}

/// Submits a job. Returns it, and whether it is new: an earlier request with the same key may have submitted it.
///
/// # Errors
/// If the job file has errors, or a quota of the tenant is used up.
pub(crate) fn submit(
    server: &Server,
    caller: &Caller,
    tenant: &TenantName,
    body: &SubmitBody,
    key: Option<String>,
) -> Result<(JobRecord, bool), Problem> {
    let found = server.state.tenant(tenant)?.ok_or_else(|| Problem::not_found("tenant"))?;
    let digest = Sha256::digest(serde_json::to_vec(body).map_err(|e| Problem::internal(&e))?);
    let key = key.map(|key| RequestKey { key, digest: digest.into() });
    let id = JobId::new();
    let folder = server.folders.submitted_job(tenant, &id);
    let submitted = write_and_look(server, tenant, &id, body).and_then(|(name, needs)| {
        let job = new_job((id.clone(), tenant.clone()), name, needs, (body, caller));
        let entry = caller.audit("job.submit", Some(tenant), id.as_str(), job.name.clone());
        let most = found.quotas.unfinished_jobs;
        Ok((server.state.submit(&job, key.as_ref(), most, &entry)?, job))
    });
    if !matches!(submitted, Ok((Submitted::New, _))) {
        // What remains is removed when the server starts.
        let _ = std::fs::remove_dir_all(&folder);
    }
    match submitted? {
        (Submitted::New, job) => {
            server.keeper.changed(&id);
            Ok((job, true))
        }
        (Submitted::Earlier(job), _) => Ok((*job, false)),
        (Submitted::OtherRequest, _) => Err(Problem::conflict(
            "Idempotency-Key: another request has used this key: use a new one",
        )),
        (Submitted::TooMany { unfinished }, _) => Err(Problem::unfinished_jobs(unfinished)),
    }
}

/// Reads the job file of a job as if it were submitted. Returns the job's name and needs. Keeps nothing.
///
/// # Errors
/// If the job file has errors.
pub(crate) fn check_job(
    server: &Server,
    tenant: &TenantName,
    body: &SubmitBody,
) -> Result<(String, WorkerNeeds), Problem> {
    server.state.tenant(tenant)?.ok_or_else(|| Problem::not_found("tenant"))?;
    let id = JobId::new();
    let found = write_and_look(server, tenant, &id, body);
    // What remains is removed when the server starts.
    let _ = std::fs::remove_dir_all(server.folders.submitted_job(tenant, &id));
    found
}

fn new_job(
    (id, tenant): (JobId, TenantName),
    name: String,
    needs: WorkerNeeds,
    (body, caller): (&SubmitBody, &Caller),
) -> JobRecord {
    JobRecord {
        id,
        tenant,
        name,
        phase: JobPhase::Queued,
        wish: JobWish::Run,
        priority: body.priority,
        labels: body.labels.clone(),
        script: body.component.clone(),
        needs,
        submitted_by: caller.actor(),
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

/// Writes what the job's process will read, and checks the job file. Returns the job's name and needs.
fn write_and_look(
    server: &Server,
    tenant: &TenantName,
    id: &JobId,
    body: &SubmitBody,
) -> Result<(String, WorkerNeeds), Problem> {
    let failed = |error: io::Error| Problem::internal(&error);
    let folder = server.folders.submitted_job(tenant, id);
    make_private(&folder).map_err(failed)?;
    write_new(&folder.join(JOB_FILE), body.job.as_bytes()).map_err(failed)?;
    let mut settings: Vec<(String, String)> =
        body.settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(digest) = &body.component {
        let script = server.state.script(tenant, digest)?;
        let script = script.ok_or_else(|| {
            Problem::invalid(format!(
                "component: the tenant has no entry script {digest}: upload it first (POST /v1/components)"
            ))
        })?;
        let name = script_name(Some(&script.name))?;
        link(&server.folders.script(tenant, digest), &folder.join(&name)).map_err(failed)?;
        settings.push(("entry_script".to_owned(), name));
    }
    let text = serde_json::to_vec(&settings).map_err(|error| Problem::internal(&error))?;
    write_new(&folder.join(SETTINGS_FILE), &text).map_err(failed)?;
    sync_folder(Some(&folder)).and_then(|()| sync_folder(folder.parent())).map_err(failed)?;
    match look(&server.processes, (tenant, id), &settings) {
        Ok(LookAnswer::Job { name, needs, .. }) => Ok((name, needs)),
        Ok(LookAnswer::Errors(errors)) => Err(Problem::job_file(errors)),
        // A file that is made to harm its reader is the user's fault.
        Err(error @ (LookError::TooLong | LookError::NoAnswer(_))) => {
            Err(Problem::invalid(format!("job: {error}; make the job file smaller or simpler")))
        }
        Err(LookError::Process(error)) => Err(Problem::internal(&error)),
    }
}

/// The entry script of a job is a second name of the uploaded file, which does not change. If the file has as many names as it
/// may have, the job gets a copy.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to).or_else(|_| {
        std::fs::copy(from, to)?;
        File::open(to)?.sync_all()
    })
}
