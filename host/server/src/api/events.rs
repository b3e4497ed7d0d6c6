//! The progress of a job as it changes, as server-sent events.

use super::caller::Caller;
use super::extract::Path;
use super::jobs::{shown_job, visible_job};
use crate::app::Server;
use crate::names::now;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::Scope;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::ToSchema;

/// How often a job is looked at.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// How often something is sent if nothing changes, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of a stream, as text.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct JobEvents(String);

/// Sends the job whenever it changes, at most twice a second: events `job` whose data is the job. Each has an id. A client that
/// sends the last one in `Last-Event-ID` gets the job again only if it has changed since. The stream ends when the job has ended.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", tag = "jobs",
    params(
        ("id" = String, Path, description = "The id of the job."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has."),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = JobEvents),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn follow_job(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    // A stranger's job is refused before the stream begins.
    let seen = look(&server, &caller, &id).await?;
    let open = server.streams.open(caller.token()).ok_or_else(Problem::streams)?;
    let (sender, events) = mpsc::channel(1);
    tokio::spawn(async move {
        follow(server, caller, id, (last, seen), sender).await;
        drop(open);
    });
    Ok(event_stream(events))
}

/// An answer that sends these events.
pub(crate) fn event_stream(events: mpsc::Receiver<Result<Event, Infallible>>) -> Response {
    let stream =
        Sse::new(ReceiverStream::new(events)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let mut response = stream.into_response();
    let headers = response.headers_mut();
    // A proxy must not collect the events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A job as it was seen: the id of its event, the job as JSON, and whether it has ended.
struct Seen {
    id: String,
    json: String,
    has_ended: bool,
}

async fn look(server: &Arc<Server>, caller: &Caller, id: &str) -> Result<Seen, Problem> {
    let (server, caller, id) = (server.clone(), caller.clone(), id.to_owned());
    blocking(move || {
        let token = server.state.token(caller.token())?;
        // The token may have been revoked since the stream began.
        token.filter(|token| token.counts_at(now())).ok_or_else(Problem::wrong_token)?;
        let job = visible_job(&server, &caller, id)?;
        let (body, id) = shown_job(&server, &job)?;
        let json = serde_json::to_string(&body).map_err(|error| Problem::internal(&error))?;
        Ok(Seen { id, json, has_ended: job.phase.has_ended() })
    })
    .await
}

async fn follow(
    server: Arc<Server>,
    caller: Caller,
    id: String,
    (mut last, mut seen): (Option<String>, Seen),
    events: mpsc::Sender<Result<Event, Infallible>>,
) {
    loop {
        if last.as_deref() != Some(seen.id.as_str()) {
            let event = Event::default().event("job").id(&seen.id).data(&seen.json);
            if events.send(Ok(event)).await.is_err() {
                return;
            }
            last = Some(seen.id);
        }
        if seen.has_ended || server.is_ending() {
            return;
        }
        tokio::select! {
            () = events.closed() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        seen = match look(&server, &caller, &id).await {
            Ok(seen) => seen,
            Err(_) => return,
        };
    }
}
