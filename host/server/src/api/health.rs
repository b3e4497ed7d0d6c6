//! Whether the server works, and its figures.

use super::caller::Caller;
use crate::app::Server;
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::Scope;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Says that the process works.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Says that the server accepts jobs.
#[utoipa::path(
    get, path = "/readyz", tag = "health", security(()),
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = "5XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn readyz(State(server): State<Arc<Server>>) -> Result<&'static str, Problem> {
    if server.is_ending() {
        return Err(Problem::ending());
    }
    blocking(move || {
        server.state.tenants(None, 1)?;
        Ok("ready\n")
    })
    .await
}

/// The figures of the server, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "health",
    responses(
        (status = 200, body = String, content_type = "text/plain; version=0.0.4"),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn metrics(
    State(server): State<Arc<Server>>,
    caller: Caller,
) -> Result<Response, Problem> {
    // The names of tenants are not for everybody.
    caller.must_have(Scope::Admin)?;
    blocking(move || {
        let mut counts: BTreeMap<(String, &str), u64> = BTreeMap::new();
        for job in server.state.unfinished()? {
            *counts.entry((job.tenant.to_string(), job.phase.name())).or_default() += 1;
        }
        let mut text = String::from(
            "# HELP sandmill_server_jobs Jobs that have not ended, by tenant and phase.\n\
             # TYPE sandmill_server_jobs gauge\n",
        );
        for ((tenant, phase), count) in counts {
            // Writing to a string cannot fail. The names need no escapes.
            let _ = writeln!(
                text,
                "sandmill_server_jobs{{tenant=\"{tenant}\",phase=\"{phase}\"}} {count}"
            );
        }
        Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
    })
    .await
}
