//! What happens inside a job: its mini-batches, workers and failures.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::jobs::{viewed, visible_job};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::jobs::{
    AttemptRow, FailureGroupRow, JobView, MiniBatchRow, MiniBatchState, MiniBatchesAsked,
};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{JobPhase, Scope};
use axum::extract::State;
use jiff::Timestamp;
use sandmill_model::JobDir;
use sandmill_report::{ReportPaths, WorkerActivity, explain_text};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which mini-batches to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MiniBatchQuery {
    /// Only those in this state.
    state: Option<MiniBatchState>,
    /// Only those whose last attempt failed in this way, as in `script_error`.
    failure_kind: Option<String>,
    /// The `next` of the page before. Leave it out for the first page.
    cursor: Option<String>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
}

/// Lists the mini-batches that a worker has begun, in the order of their numbers.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/mini-batches", tag = "inside",
    params(("id" = String, Path, description = "The id of the job."), MiniBatchQuery),
    responses((status = 200, body = Page<MiniBatchRow>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_mini_batches(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(asked): Query<MiniBatchQuery>,
) -> Result<Json<Page<MiniBatchRow>>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    let page = PageAsked { cursor: asked.cursor, limit: asked.limit };
    let (limit, after) = (page.limit()?, page.after_number()?);
    let MiniBatchQuery { state, failure_kind, .. } = asked;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let asked = MiniBatchesAsked { state, failure_kind, after, limit };
        let rows = viewed(&server, &job, |view| view.mini_batches(&asked))?;
        Ok(Json(Page::new(rows, limit, |row| row.id.to_string())))
    })
    .await
}

/// A mini-batch with its attempts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MiniBatchBody {
    #[serde(flatten)]
    mini_batch: MiniBatchRow,
    /// Its attempts, in the order of their numbers.
    attempts_made: Vec<AttemptRow>,
}

/// Shows a mini-batch and its attempts.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/mini-batches/{number}", tag = "inside",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("number" = u64, Path, description = "The number of the mini-batch, from 0."),
    ),
    responses((status = 200, body = MiniBatchBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_mini_batch(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path((id, number)): Path<(String, u64)>,
) -> Result<Json<MiniBatchBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let found = viewed(&server, &job, |view| view.mini_batch(number))?;
        let (mini_batch, attempts_made) =
            found.ok_or_else(|| Problem::not_found("mini-batch, or no worker has begun it"))?;
        Ok(Json(MiniBatchBody { mini_batch, attempts_made }))
    })
    .await
}

/// The failures of a job, by kind.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FailuresBody {
    /// The kinds, the most frequent first.
    items: Vec<FailureGroupRow>,
}

/// Groups the mini-batches that failed for good by the kind of their last failure.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/failures", tag = "inside",
    params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = FailuresBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_failures(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<FailuresBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let items = viewed(&server, &job, |view| view.failure_groups())?;
        Ok(Json(FailuresBody { items }))
    })
    .await
}

/// A live worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WorkerBody {
    /// Its name, as in `process003`.
    pub(crate) name: String,
    /// What it does: `starting`, `waiting` or `running`.
    pub(crate) doing: &'static str,
    /// The mini-batch that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mini_batch: Option<u64>,
    /// The attempt that it makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    /// Since when it does this.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) since: Timestamp,
    /// The GPU that it leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gpu_index: Option<u32>,
}

/// The live workers of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct WorkersBody {
    /// The workers, by name.
    items: Vec<WorkerBody>,
}

/// Lists the live workers of a job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/workers", tag = "inside",
    params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = WorkersBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_workers(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<WorkersBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        if job.phase != JobPhase::Running {
            return Ok(Json(WorkersBody { items: Vec::new() }));
        }
        let items = viewed(&server, &job, |view| Ok(live_workers(view)))?;
        Ok(Json(WorkersBody { items }))
    })
    .await
}

/// The live workers of a job that runs.
pub(crate) fn live_workers(view: &JobView) -> Vec<WorkerBody> {
    let workers = view.history().workers.iter().map(|(name, worker)| {
        let (doing, mini_batch, attempt) = match worker.doing {
            WorkerActivity::Starting => ("starting", None, None),
            WorkerActivity::Waiting => ("waiting", None, None),
            WorkerActivity::Running(id, attempt) => ("running", Some(id.0), Some(attempt)),
        };
        let since = worker.since;
        let gpu_index = worker.gpu_index;
        WorkerBody { name: name.clone(), doing, mini_batch, attempt, since, gpu_index }
    });
    workers.collect()
}

/// An explanation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ExplainBody {
    /// What went wrong or made the job slow, what to read, and what to change.
    text: String,
}

/// Explains what went wrong in a job or made it slow.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/explain", tag = "inside",
    params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = ExplainBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn explain_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ExplainBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let dir = JobDir::new(server.folders.job(&job.tenant, &job.id));
        // Users name the job by its id.
        let paths = report_paths(&job.name, dir, job.id.to_string());
        let is_running = job.phase == JobPhase::Running;
        let text =
            viewed(&server, &job, |view| Ok(explain_text(view.history(), &paths, is_running)))?;
        Ok(Json(ExplainBody { text }))
    })
    .await
}

/// The paths of a job, for its explanation. `word`: the job as users name it.
pub(crate) fn report_paths(name: &str, dir: JobDir, word: String) -> ReportPaths {
    let output = dir.default_output();
    let shown_from = dir.root().to_owned();
    ReportPaths { word: Some(word), ..ReportPaths::new(name.to_owned(), dir, output, shown_from) }
}
