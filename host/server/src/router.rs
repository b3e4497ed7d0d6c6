//! All routes: those of the API, and those of the portal.

use crate::app::Server;
use crate::problem::Problem;
use crate::{api, portal};
use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::response::Response;
use std::sync::Arc;

/// The routes of a server.
pub(crate) fn router(server: Arc<Server>) -> Router {
    api::routes()
        .merge(portal::routes())
        .fallback(|| async { Problem::no_route() })
        .method_not_allowed_fallback(|| async { Problem::method() })
        .layer(axum::middleware::map_response(never_kept))
        .with_state(server)
}

/// No cache keeps what belongs to a tenant.
async fn never_kept(mut response: Response) -> Response {
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
