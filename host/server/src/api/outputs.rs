//! The results of a job.

use super::caller::Caller;
use super::extract::{Json, Path};
use super::files::{FilesBody, list_below, open_below, send};
use super::jobs::visible_job;
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{JobRecord, Scope};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use sandmill_leader::JobState;
use sandmill_model::JobDir;
use std::path::PathBuf;
use std::sync::Arc;

/// The folder with the results of a job. `None` if the job has not begun, or if its results go to a store.
fn output_folder(server: &Server, job: &JobRecord) -> Option<PathBuf> {
    output_folder_of(&JobDir::new(server.folders.job(&job.tenant, &job.id)))
}

/// The folder with the results of the job in this directory. `None` if the job has not begun, or if its results go to a
/// store.
pub(crate) fn output_folder_of(dir: &JobDir) -> Option<PathBuf> {
    let state = JobState::read(dir).ok().flatten()?;
    state.results.is_none().then(|| dir.root().join(state.output))
}

/// Lists the files of a job's output. Rows of a job that runs may be missing from them.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/outputs", tag = "files",
    params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = FilesBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_outputs(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<FilesBody>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let folder = output_folder(&server, &job);
        let files = folder.map_or_else(|| Ok(FilesBody::default()), |folder| list_below(&folder));
        Ok(Json(files.map_err(|error| Problem::internal(&error))?))
    })
    .await
}

/// Downloads a file of a job's output, or a range of it.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/outputs/{path}", tag = "files",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("path" = String, Path, description = "The path of the file. It may have slashes."),
        ("Range" = Option<String>, Header, description = "As in `bytes=0-99`."),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, content_type = "application/octet-stream", body = Vec<u8>, description = "The range."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn download_output(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let folder = output_folder(&server, &job).ok_or_else(|| Problem::not_found("file"))?;
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        send(open_below(&folder, &path)?, &headers, &name)
    })
    .await
}
