//! The log tree of a job.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::files::{FilesBody, list_below, open_below, send};
use super::jobs::visible_job;
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{JobRecord, Scope};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use sandmill_model::JobDir;
use serde::Deserialize;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use utoipa::IntoParams;

/// The most lines that `tail` gives, and the bytes in which they are searched.
const MOST_LINES: u32 = 10_000;
const TAIL_BYTES: u64 = 4 << 20;

fn log_folder(server: &Server, job: &JobRecord) -> PathBuf {
    JobDir::new(server.folders.job(&job.tenant, &job.id)).logs()
}

/// Lists the files of a job's log tree.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/logs", tag = "files",
    params(("id" = String, Path, description = "The id of the job.")),
    responses((status = 200, body = FilesBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_logs(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<FilesBody>, Problem> {
    caller.must_have(Scope::ReadLogs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let files = list_below(&log_folder(&server, &job));
        Ok(Json(files.map_err(|error| Problem::internal(&error))?))
    })
    .await
}

/// How much of a file is asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogAsked {
    /// Only the last so many lines, 1 to 10000.
    #[param(minimum = 1, maximum = 10_000)]
    tail: Option<u32>,
}

/// Downloads a file of a job's log tree, a range of it, or its last lines.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/logs/{path}", tag = "files",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("path" = String, Path, description = "The path of the file. It may have slashes."),
        ("Range" = Option<String>, Header, description = "As in `bytes=0-99`. A program that follows a file asks for what comes after the bytes that it has."),
        LogAsked,
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, content_type = "application/octet-stream", body = Vec<u8>, description = "The range, or the last lines. `Content-Range` says where they are."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn download_log(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    Query(asked): Query<LogAsked>,
    mut headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.must_have(Scope::ReadLogs)?;
    if asked.tail.is_some_and(|lines| !(1..=MOST_LINES).contains(&lines)) {
        return Err(Problem::bad_request(format!("tail: expected 1 to {MOST_LINES}")));
    }
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let (mut file, length) = open_below(&log_folder(&server, &job), &path)?;
        if let Some(lines) = asked.tail {
            let from = start_of_tail(&mut file, length, lines);
            let from = from.map_err(|error| Problem::internal(&error))?;
            headers.remove("range");
            if from > 0
                && let Ok(range) = format!("bytes={from}-").try_into()
            {
                headers.insert("range", range);
            }
        }
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        send((file, length), &headers, &name)
    })
    .await
}

/// The byte at which the last lines begin. Looks only at the last megabytes of the file.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn start_of_tail(
    file: &mut (impl Read + Seek),
    length: u64,
    lines: u32,
) -> std::io::Result<u64> {
    let from = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length - from).read_to_end(&mut bytes)?;
    // The end of the last line does not begin another one.
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let breaks = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let start = breaks.map(|(at, _)| at as u64 + 1).nth(lines as usize - 1);
    Ok(from + start.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn the_tail_begins_at_a_line() {
        let start = |text: &str, lines| {
            start_of_tail(&mut Cursor::new(text), text.len() as u64, lines).unwrap()
        };
        assert_eq!(start("a\nb\nc\n", 1), 4);
        assert_eq!(start("a\nb\nc", 2), 2);
        assert_eq!(start("a\nb\nc\n", 9), 0);
        assert_eq!(start("", 1), 0);
        assert_eq!(start("\n\n\n", 2), 1);
    }
}
