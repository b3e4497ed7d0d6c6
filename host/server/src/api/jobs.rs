//! Lists and shows jobs.

use super::caller::Caller;
use super::extract::{Json, Path, Query, tagged};
use super::job_body::{FirstFailureBody, JobBody, ProgressBody};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::jobs::{JobView, ViewError};
use crate::names::{JobId, TenantName, now};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{JobFilter, JobPhase, JobRecord, Scope};
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// Which jobs to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobsAsked {
    /// Only jobs in one of these phases, separated by commas, as in `queued,running`.
    pub(crate) phase: Option<String>,
    /// Only jobs whose names contain this text.
    pub(crate) q: Option<String>,
    /// Only jobs with this label, as in `team=red`.
    pub(crate) label: Option<String>,
    /// For operators: only jobs of this tenant.
    pub(crate) tenant: Option<String>,
    /// The `next` of the page before. Leave it out for the first page.
    pub(crate) cursor: Option<String>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<u32>,
}

impl JobsAsked {
    fn filter(&self, caller: &Caller) -> Result<JobFilter, Problem> {
        let phase = |name: &str| {
            let named = JobPhase::NAMED.iter().find(|(known, _)| *known == name);
            named.map(|(_, phase)| *phase).ok_or_else(|| {
                let known: Vec<_> = JobPhase::NAMED.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                Problem::bad_request(format!("phase: found {name:?}; expected some of {known}"))
            })
        };
        let phases = self.phase.iter().flat_map(|names| names.split(','));
        let label = self.label.as_deref().map(|label| {
            let pair = label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Problem::bad_request("label: expected KEY=VALUE, as in team=red"))
        });
        let asked = self.tenant.clone().map(TenantName::try_from).transpose()?;
        let tenant = match (caller.tenant(), asked) {
            (Some(_), Some(asked)) => Some(caller.acts_for(Some(asked))?),
            (Some(own), None) => Some(own.clone()),
            (None, asked) => asked,
        };
        Ok(JobFilter {
            tenant,
            phases: phases.map(phase).collect::<Result<_, _>>()?,
            name: self.q.clone(),
            label: label.transpose()?,
        })
    }
}

/// Lists jobs, the latest first.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", params(JobsAsked),
    responses((status = 200, body = Page<JobBody>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_jobs(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<JobsAsked>,
) -> Result<Json<Page<JobBody>>, Problem> {
    blocking(move || Ok(Json(listed_jobs(&server, &caller, asked)?))).await
}

/// A page of jobs, the latest first.
///
/// # Errors
/// If the caller may not read jobs, or the query is not as documented.
pub(crate) fn listed_jobs(
    server: &Server,
    caller: &Caller,
    asked: JobsAsked,
) -> Result<Page<JobBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    let filter = asked.filter(caller)?;
    let page = PageAsked { cursor: asked.cursor, limit: asked.limit };
    let (limit, before) = (page.limit()?, page.after::<JobId>()?);
    let jobs = server.state.jobs(&filter, before.as_ref(), limit)?;
    let page = Page::new(jobs, limit, |job| job.id.to_string());
    let items = page.items.iter().map(|job| JobBody::new(server, job)).collect();
    Ok(Page { items, next: page.next })
}

/// Shows a job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = JobBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        Ok(tagged(job.version, Json(shown_job(&server, &job)?.0)))
    })
    .await
}

/// The job with this id, if the caller may see it.
///
/// # Errors
/// If there is no such job, or it belongs to another tenant: the caller cannot tell these apart.
pub(crate) fn visible_job(
    server: &Server,
    caller: &Caller,
    id: String,
) -> Result<JobRecord, Problem> {
    let job = server.state.job(&JobId::try_from(id)?)?;
    job.filter(|job| caller.sees(&job.tenant)).ok_or_else(|| Problem::not_found("job"))
}

/// A job with what its events say, and a text that changes if it does.
///
/// # Errors
/// If the events cannot be read.
pub(crate) fn shown_job(server: &Server, job: &JobRecord) -> Result<(JobBody, String), Problem> {
    let mut body = JobBody::new(server, job);
    let mut changed_by = format!("{}.{}", job.version, job.starts);
    if job.began.is_none() {
        return Ok((body, changed_by));
    }
    let is_running = job.phase == JobPhase::Running;
    let now = now();
    let seen = server.views.look((&job.tenant, &job.id), |view| {
        body.progress = progress_of(view, is_running, now);
        body.counts = if is_running { view.counts() } else { job.counts };
        changed_by = format!("{changed_by}.{}", view.last());
        Ok(())
    });
    match seen {
        // The job itself is shown without what its events say.
        Ok(()) | Err(ViewError::Partial) => Ok((body, changed_by)),
        Err(error) => Err(Problem::internal(&error)),
    }
}

/// Looks at a job's events.
///
/// # Errors
/// If they cannot be read, or not yet.
pub(crate) fn viewed<T>(
    server: &Server,
    job: &JobRecord,
    look: impl FnOnce(&JobView) -> Result<T, ViewError>,
) -> Result<T, Problem> {
    server.views.look((&job.tenant, &job.id), look).map_err(no_view)
}

/// Why a job's events cannot be shown.
pub(crate) fn no_view(error: ViewError) -> Problem {
    match error {
        ViewError::Partial => Problem::not_yet(error.to_string()),
        error => Problem::internal(&error),
    }
}

/// What a job's events say about its progress.
pub(crate) fn progress_of(view: &JobView, is_running: bool, now: Timestamp) -> ProgressBody {
    let pace = view.pace(now).filter(|_| is_running);
    ProgressBody {
        rate: pace.map(|(rate, _)| rate),
        seconds_left: pace.filter(|_| view.counts().planning_finished).map(|(_, seconds)| seconds),
        last_word: view.history().last,
        first_failure: first_failure(view),
    }
}

fn first_failure(view: &JobView) -> Option<FirstFailureBody> {
    let history = view.history();
    if let Some(group) = history.groups.first() {
        return Some(FirstFailureBody {
            mini_batch: Some(group.first.id.0),
            kind: group.failure.kind.to_string(),
            message: group.failure.message.clone(),
        });
    }
    let (_, failure) = history.first_init_failure.as_ref()?;
    let (kind, message) = (failure.kind.to_string(), failure.message.clone());
    Some(FirstFailureBody { mini_batch: None, kind, message })
}
