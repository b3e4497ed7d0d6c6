//! What was done by whom.

use super::caller::Caller;
use super::extract::{Json, Query};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{AuditRecord, Scope};
use axum::extract::State;
use std::sync::Arc;

/// Lists what was done by whom, the latest first. An operator sees all of it.
#[utoipa::path(
    get, path = "/v1/audit", tag = "tokens", params(PageAsked),
    responses((status = 200, body = Page<AuditRecord>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_audit(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<PageAsked>,
) -> Result<Json<Page<AuditRecord>>, Problem> {
    blocking(move || Ok(Json(listed_audit(&server, &caller, &asked)?))).await
}

/// A page of the audit, the latest entry first.
///
/// # Errors
/// If the caller may not read it, or the query is not as documented.
pub(crate) fn listed_audit(
    server: &Server,
    caller: &Caller,
    asked: &PageAsked,
) -> Result<Page<AuditRecord>, Problem> {
    caller.must_have(Scope::WriteTokens)?;
    let (limit, before) = (asked.limit()?, asked.after_number()?);
    let before = before.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let found = server.state.audit(caller.tenant(), before, limit)?;
    Ok(Page::new(found, limit, |entry| entry.number.to_string()))
}
