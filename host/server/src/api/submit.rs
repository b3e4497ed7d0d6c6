//! Submits jobs.

use super::components::script_name;
use super::extract::{Json, Query, tagged};
use super::job_body::JobBody;
use super::problem::ProblemBody;
use super::submit_form::read_form;
use super::{Problem, blocking};
use crate::app::Server;
use crate::auth::Caller;
use crate::jobs::{JOB_FILE, LookAnswer, SETTINGS_FILE, look};
use crate::names::{JobId, TenantName, now};
use crate::state::{
    JobCounts, JobPhase, JobRecord, JobWish, RequestKey, Scope, ScriptDigest, Submitted,
    WorkerNeeds,
};
use axum::extract::{FromRequest, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sandmill_files::opening::make_private;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The longest job file.
pub(crate) const MOST_JOB_FILE: usize = 1 << 20;
/// The most settings and labels of a job, and the longest texts among them.
const MOST_ENTRIES: usize = 64;
const MOST_TEXT: usize = 4096;
/// The priorities.
const PRIORITIES: std::ops::RangeInclusive<i32> = -100..=100;
/// The settings that only the server may give.
const RESERVED: [&str; 2] = ["tenant", "job_store"];

/// A job to be submitted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitBody {
    /// The text of the job file, in YAML.
    pub(crate) job: String,
    /// The digest of an uploaded entry script, which replaces the `entry_script` of the job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) component: Option<ScriptDigest>,
    /// Settings that replace those of the job file, as in `{"mini_batch_size": "10"}`. The values are written as in the file.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    /// Jobs of the tenant with a higher priority start first, -100 to 100.
    #[serde(default)]
    #[schema(minimum = -100, maximum = 100)]
    pub(crate) priority: i32,
    /// Notes about the job, as in `{"team": "red"}`.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

impl SubmitBody {
    fn check(&self) -> Result<(), Problem> {
        if self.job.len() > MOST_JOB_FILE {
            let detail = format!("job: the job file may have at most {MOST_JOB_FILE} bytes");
            return Err(Problem::too_large(detail));
        }
        check_priority(self.priority)?;
        for (what, entries) in [("settings", &self.settings), ("labels", &self.labels)] {
            let fits = |text: &String| text.len() <= MOST_TEXT && !text.contains('\0');
            let are_good = entries.iter().all(|(key, value)| {
                !key.is_empty() && !key.contains('=') && fits(key) && fits(value)
            });
            if entries.len() > MOST_ENTRIES || !are_good {
                return Err(Problem::invalid(format!(
                    "{what}: expected at most {MOST_ENTRIES} texts of at most {MOST_TEXT} bytes, with keys that have no `=`"
                )));
            }
        }
        let reserved = RESERVED.iter().find(|key| self.settings.contains_key(**key));
        reserved.map_or(Ok(()), |key| {
            Err(Problem::invalid(format!(
                "settings.{key}: only the server gives this: leave it out"
            )))
        })
    }
}

/// Checks the priority of a job.
///
/// # Errors
/// If it is out of range.
pub(crate) fn check_priority(priority: i32) -> Result<(), Problem> {
    PRIORITIES.contains(&priority).then_some(()).ok_or_else(|| {
        Problem::invalid(format!("priority: found {priority}; expected -100 to 100"))
    })
}

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
        false => Json::<SubmitBody>::from_request(request, &()).await?.0,
    };
    body.check()?;
    blocking(move || submit(&server, &caller, &tenant, &body, key)).await
}

fn request_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text = key.to_str().ok().filter(|text| (1..=255).contains(&text.len()));
    let text = text.ok_or_else(|| {
        Problem::bad_request("Idempotency-Key: expected 1 to 255 visible ASCII characters")
    })?;
    Ok(Some(text.to_owned()))
}

fn submit(
    server: &Server,
    caller: &Caller,
    tenant: &TenantName,
    body: &SubmitBody,
    key: Option<String>,
) -> Result<Response, Problem> {
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
            let location = [("location", format!("/v1/jobs/{id}"))];
            let body = tagged(job.version, Json(JobBody::new(server, &job)));
            Ok((StatusCode::CREATED, location, body).into_response())
        }
        (Submitted::Earlier(job), _) => Ok(tagged(job.version, Json(JobBody::new(server, &job)))),
        (Submitted::OtherRequest, _) => Err(Problem::conflict(
            "Idempotency-Key: another request has used this key: use a new one",
        )),
        (Submitted::TooMany { unfinished }, _) => Err(Problem::quota(format!(
            "{unfinished} jobs of the tenant have not ended, and its quota allows no more (unfinished_jobs): wait until one ends, \
             or cancel one"
        ))),
    }
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
        retries_failed: false,
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
    std::fs::write(folder.join(JOB_FILE), &body.job).map_err(failed)?;
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
    std::fs::write(folder.join(SETTINGS_FILE), text).map_err(failed)?;
    match look(&server.processes, (tenant, id), &settings) {
        Ok(LookAnswer::Job { name, needs, .. }) => Ok((name, needs)),
        Ok(LookAnswer::Errors(errors)) => Err(Problem::job_file(errors)),
        Err(error) => Err(Problem::internal(&error)),
    }
}

/// The entry script of a job is a second name of the uploaded file, which does not change.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)
}
