//! Lists the items of a job that failed.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::jobs::visible_job;
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::Scope;
use axum::extract::State;
use csv::{Position, ReaderBuilder};
use sandmill_files::opening::regular_at_its_path;
use sandmill_model::JobDir;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use utoipa::ToSchema;

/// An item that failed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FailedItemBody {
    /// The mini-batch.
    pub(crate) mini_batch: u64,
    /// The item, for people.
    pub(crate) item: String,
    /// The file of the item.
    pub(crate) file: String,
    /// The line in the file, from 1.
    pub(crate) line: Option<u64>,
    /// The row in the file, from 0.
    pub(crate) row: Option<u64>,
    /// The attempt, from 1.
    pub(crate) attempt: u32,
    /// The worker.
    pub(crate) worker: String,
    /// Why it failed.
    pub(crate) reason: String,
    /// The kind of the failure.
    pub(crate) kind: String,
}

/// Lists the items that failed for good, in the order in which they failed.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/failed-items", tag = "inside",
    params(("id" = String, Path, description = "The id of the job."), PageAsked),
    responses((status = 200, body = Page<FailedItemBody>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_failed_items(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    Query(asked): Query<PageAsked>,
) -> Result<Json<Page<FailedItemBody>>, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let job = visible_job(&server, &caller, id)?;
        let dir = JobDir::new(server.folders.job(&job.tenant, &job.id));
        Ok(Json(listed_failed_items(&dir, &asked)?))
    })
    .await
}

/// A page of the items that failed for good.
///
/// # Errors
/// If the report cannot be read, or the caller the query is not as documented.
pub(crate) fn listed_failed_items(
    dir: &JobDir,
    asked: &PageAsked,
) -> Result<Page<FailedItemBody>, Problem> {
    let limit = asked.limit()?;
    let from = asked.after_number()?;
    let found = read(dir, from, limit).map_err(|error| Problem::internal(&error))?;
    let page = Page::new(found, limit, |(_, next)| next.to_string());
    let items = page.items.into_iter().map(|(item, _)| item).collect();
    Ok(Page { items, next: page.next })
}

/// Reads rows of the report from this byte on, each with the byte at which the next row begins.
fn read(dir: &JobDir, from: Option<u64>, limit: u32) -> io::Result<Vec<(FailedItemBody, u64)>> {
    let file = match regular_at_its_path(&dir.failed_items()) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers()?.clone();
    if let Some(from) = from {
        let mut place = Position::new();
        place.set_byte(from);
        reader.seek(place)?;
    }
    let mut found = Vec::new();
    let mut record = csv::StringRecord::new();
    while found.len() < limit as usize && reader.read_record(&mut record)? {
        // The last row of a job that was killed may be a part of one.
        if let Ok(item) = record.deserialize::<FailedItemBody>(Some(&header)) {
            found.push((item, reader.position().byte()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_continue_after_rows_with_line_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let dir = JobDir::new(folder.path().canonicalize().unwrap());
        assert_eq!(read(&dir, None, 10).unwrap(), []);
        std::fs::create_dir_all(dir.logs()).unwrap();
        let text = "mini_batch,item,file,line,row,attempt,worker,reason,kind\n\
                    0,a,a.csv,2,,1,process000,\"two\nlines, \"\"quoted\"\"\",bad_input\n\
                    1,b,b.csv,,7,3,process001,no,script_error\n2,cut";
        std::fs::write(dir.failed_items(), text).unwrap();
        let first = read(&dir, None, 1).unwrap();
        assert_eq!(first[0].0.reason, "two\nlines, \"quoted\"");
        let rest = read(&dir, Some(first[0].1), 10).unwrap();
        assert_eq!(rest.len(), 1);
        assert_eq!((rest[0].0.mini_batch, rest[0].0.row), (1, Some(7)));
    }
}
