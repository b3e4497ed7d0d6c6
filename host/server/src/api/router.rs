//! All routes, and the document that describes them.

use super::router_limits::MOST_JSON;
use super::{
    actions, audit, components, events, failed_items, health, inside, jobs, logs, outputs,
    receipts, submit, tenants, tokens,
};
use crate::app::Server;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use std::sync::Arc;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, SecurityRequirement,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes and their document.
fn documented() -> OpenApiRouter<Arc<Server>> {
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let document = OpenApiBuilder::new()
        .info(
            InfoBuilder::new().title("Sandmill").version(env!("CARGO_PKG_VERSION")).description(
                Some("Runs untrusted entry scripts over large inputs, for many tenants."),
            ),
        )
        .components(Some(ComponentsBuilder::new().security_scheme("token", scheme).build()))
        .security(Some([SecurityRequirement::new::<_, [&str; 0], &str>("token", [])]))
        .build();
    let limited = OpenApiRouter::new()
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::show_job))
        .routes(routes!(actions::cancel_job))
        .routes(routes!(actions::pause_job))
        .routes(routes!(actions::resume_job))
        .routes(routes!(actions::set_priority))
        .routes(routes!(events::follow_job))
        .routes(routes!(inside::list_mini_batches))
        .routes(routes!(inside::show_mini_batch))
        .routes(routes!(inside::list_failures))
        .routes(routes!(inside::list_workers))
        .routes(routes!(inside::explain_job))
        .routes(routes!(failed_items::list_failed_items))
        .routes(routes!(outputs::list_outputs))
        .routes(routes!(logs::list_logs))
        .routes(routes!(receipts::show_receipt))
        .routes(routes!(receipts::list_receipts))
        .routes(routes!(receipts::show_usage))
        .routes(routes!(components::list_components))
        .routes(routes!(components::show_component))
        .routes(routes!(tenants::add_tenant, tenants::list_tenants))
        .routes(routes!(tenants::show_tenant))
        .routes(routes!(tenants::set_quota))
        .routes(routes!(tokens::make_token, tokens::list_tokens))
        .routes(routes!(tokens::revoke_token))
        .routes(routes!(tokens::show_caller))
        .routes(routes!(audit::list_audit))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .layer(DefaultBodyLimit::max(MOST_JSON));
    let large = OpenApiRouter::new()
        .routes(routes!(submit::submit_job))
        .routes(routes!(components::upload_component))
        // These limit the bytes themselves.
        .layer(DefaultBodyLimit::disable());
    OpenApiRouter::with_openapi(document).merge(limited).merge(large)
}

/// The routes whose last part may have slashes. OpenAPI has no such paths: a program that follows the document escapes the
/// slashes, and both forms work.
fn with_slashes() -> (Router<Arc<Server>>, OpenApi) {
    let described: OpenApiRouter<Arc<Server>> = OpenApiRouter::new()
        .routes(routes!(outputs::download_output))
        .routes(routes!(logs::download_log));
    let routes = Router::new()
        .route("/v1/jobs/{id}/outputs/{*path}", get(outputs::download_output))
        .route("/v1/jobs/{id}/logs/{*path}", get(logs::download_log));
    (routes, described.split_for_parts().1)
}

/// The document that describes the API.
pub(crate) fn openapi() -> OpenApi {
    let mut document = documented().split_for_parts().1;
    document.merge(with_slashes().1);
    document
}

/// The routes.
pub(crate) fn routes() -> Router<Arc<Server>> {
    let (routes, _) = documented().split_for_parts();
    let routes = routes.merge(with_slashes().0);
    let document = Arc::new(openapi());
    let openapi = move || {
        let document = document.clone();
        async move { axum::Json(OpenApi::clone(&document)) }
    };
    routes.route("/openapi.json", get(openapi))
}
