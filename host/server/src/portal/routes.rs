//! All routes of the portal, in one table: a route that is added there is also tried by the tests of what strangers may do.

use super::guards::protected;
use super::one_job::OneJob;
use super::page_problem::PageProblem;
use super::seen::SeenJob;
use super::{
    actions, assets, audit, components, failures, job, jobs, live, logs, mini_batches, outputs,
    sign_in, submit, tenants, tokens, workers,
};
use crate::app::Server;
use crate::problem::Problem;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts};
use axum::response::Redirect;
use axum::routing::{MethodRouter, any, get, post};
use std::sync::Arc;

/// The most bytes of a form without files.
const MOST_FORM: usize = 256 << 10;
/// The address of a job's pages.
const JOB: &str = "/portal/jobs/{id}";

/// A route: the method, the path, and what answers.
struct Route<S> {
    method: &'static str,
    path: &'static str,
    answer: MethodRouter<S>,
}

fn shown<S>(path: &'static str, answer: MethodRouter<S>) -> Route<S> {
    Route { method: "GET", path, answer }
}

fn posted<S>(path: &'static str, answer: MethodRouter<S>) -> Route<S> {
    Route { method: "POST", path, answer }
}

/// The pages of a job, below its address.
fn job_pages<S>() -> Vec<Route<S>>
where
    S: Clone + Send + Sync + 'static,
    SeenJob: FromRequestParts<S, Rejection = PageProblem>,
{
    vec![
        shown("", get(job::show)),
        shown("/explain", get(job::explain)),
        shown("/live", get(live::follow)),
        shown("/mini-batches", get(mini_batches::list)),
        shown("/mini-batches/{number}", get(mini_batches::show)),
        shown("/failures", get(failures::list)),
        shown("/failed-items", get(failures::items)),
        shown("/failed-items.csv", get(failures::items_csv)),
        shown("/workers", get(workers::list)),
        shown("/logs", get(logs::list)),
        shown("/logs/{*path}", get(logs::show)),
        shown("/outputs", get(outputs::list)),
        shown("/outputs/{*path}", get(outputs::show)),
    ]
}

/// What changes a job, below its address.
fn job_actions() -> Vec<Route<Arc<Server>>> {
    vec![
        posted("/cancel", post(actions::cancel)),
        posted("/cancel-at-once", post(actions::cancel_at_once)),
        posted("/pause", post(actions::pause)),
        posted("/resume", post(actions::resume)),
        posted("/priority", post(actions::set_priority)),
    ]
}

/// The other pages of a server, for users who have signed in.
fn pages() -> Vec<Route<Arc<Server>>> {
    vec![
        shown("/portal/jobs", get(jobs::list)),
        shown("/portal/submit", get(submit::show)),
        shown("/portal/components", get(components::list)),
        shown("/portal/components/{digest}", get(components::show)),
        shown("/portal/tokens", get(tokens::list)),
        posted("/portal/tokens", post(tokens::make)),
        posted("/portal/tokens/{id}/revoke", post(tokens::remove)),
        shown("/portal/audit", get(audit::list)),
        shown("/portal/tenants", get(tenants::list)),
        posted("/portal/tenants", post(tenants::add)),
        shown("/portal/tenants/{name}", get(tenants::show)),
        posted("/portal/tenants/{name}/quota", post(tenants::change)),
        posted("/portal/sign-out", post(sign_in::end)),
    ]
}

/// The forms with files. They limit the bytes themselves.
fn large_forms() -> Vec<Route<Arc<Server>>> {
    vec![
        posted("/portal/submit", post(submit::send)),
        posted("/portal/components", post(components::upload)),
    ]
}

/// The method and path of each route that needs a session.
pub fn portal_routes() -> Vec<(&'static str, String)> {
    let of_job = job_pages().into_iter().chain(job_actions());
    let of_job = of_job.map(|route| (route.method, format!("{JOB}{}", route.path)));
    let others = pages().into_iter().chain(large_forms());
    of_job.chain(others.map(|route| (route.method, route.path.to_owned()))).collect()
}

fn with<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    base: &str,
    routes: Vec<Route<S>>,
) -> Router<S> {
    routes
        .into_iter()
        .fold(router, |router, route| router.route(&format!("{base}{}", route.path), route.answer))
}

/// The style and the script.
fn with_assets<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .route("/portal/assets/portal.css", get(assets::style))
        .route("/portal/assets/portal.js", get(assets::script))
}

async fn missing() -> PageProblem {
    Problem::not_found("page").into()
}

/// The routes of a server's portal.
pub(crate) fn routes() -> Router<Arc<Server>> {
    let small = with(Router::new(), JOB, job_pages());
    let small = with(with(small, JOB, job_actions()), "", pages())
        .route("/portal/sign-in", get(sign_in::show).post(sign_in::begin))
        .layer(DefaultBodyLimit::max(MOST_FORM));
    let large = with(Router::new(), "", large_forms()).layer(DefaultBodyLimit::disable());
    let first = || async { Redirect::to(sign_in::FIRST) };
    with_assets(small.merge(large))
        .route("/", get(first))
        .route("/portal", get(first))
        .route("/portal/{*path}", any(missing))
        .layer(axum::middleware::map_response(protected))
}

/// The routes of `sandmill portal`. They change nothing.
pub(super) fn job_routes() -> Router<OneJob> {
    with_assets(with(Router::new(), "/job", job_pages()))
        .route("/", get(|| async { Redirect::to("/job") }))
        .fallback(missing)
        .method_not_allowed_fallback(missing)
        .layer(axum::middleware::map_response(protected))
}
