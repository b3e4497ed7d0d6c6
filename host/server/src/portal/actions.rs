//! Cancels, pauses and resumes a job, and changes its priority.

use super::page_problem::{PageProblem, blocking};
use super::seen::PathParts;
use super::visitor::Posted;
use crate::api::{JobAction, act};
use crate::app::Server;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Redirect;
use std::sync::Arc;

/// Cancels a job.
pub(super) async fn cancel(
    server: State<Arc<Server>>,
    parts: PathParts,
    posted: Posted,
) -> Result<Redirect, PageProblem> {
    change(server, parts, posted, JobAction::Cancel).await
}

/// Cancels a job, and ends its running mini-batches.
pub(super) async fn cancel_at_once(
    server: State<Arc<Server>>,
    parts: PathParts,
    posted: Posted,
) -> Result<Redirect, PageProblem> {
    change(server, parts, posted, JobAction::CancelAtOnce).await
}

/// Pauses a job.
pub(super) async fn pause(
    server: State<Arc<Server>>,
    parts: PathParts,
    posted: Posted,
) -> Result<Redirect, PageProblem> {
    change(server, parts, posted, JobAction::Pause).await
}

/// Resumes a job.
pub(super) async fn resume(
    server: State<Arc<Server>>,
    parts: PathParts,
    posted: Posted,
) -> Result<Redirect, PageProblem> {
    change(server, parts, posted, JobAction::Resume).await
}

/// Changes the priority of a job.
pub(super) async fn set_priority(
    server: State<Arc<Server>>,
    parts: PathParts,
    posted: Posted,
) -> Result<Redirect, PageProblem> {
    // An empty field means the usual priority.
    let priority = posted.fields.number("priority").map_err(Problem::invalid)?.unwrap_or_default();
    change(server, parts, posted, JobAction::Priority(priority)).await
}

async fn change(
    State(server): State<Arc<Server>>,
    parts: PathParts,
    posted: Posted,
    action: JobAction,
) -> Result<Redirect, PageProblem> {
    let id = parts.get("id").to_owned();
    let caller = posted.visitor.caller;
    let changed = blocking(move || act(&server, &caller, id, &HeaderMap::new(), action)).await?;
    Ok(Redirect::to(&format!("/portal/jobs/{}", changed.id)))
}
