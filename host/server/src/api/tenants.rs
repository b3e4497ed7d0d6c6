//! Tenants, for operators.

use super::caller::Caller;
use super::extract::{Json, Path, Query, check_version, tagged};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::names::{TenantName, now};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{Quotas, Scope, Tenant};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// The weight of a tenant if none is given.
const DEFAULT_WEIGHT: u32 = 1;
const MOST_WEIGHT: u32 = 1000;

/// A tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TenantBody {
    /// The name.
    #[schema(value_type = String)]
    pub(crate) name: TenantName,
    /// Its part of the machine, relative to the weights of the other tenants.
    pub(crate) weight: u32,
    /// What it may use.
    pub(crate) quotas: Quotas,
    /// When it was added.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created: Timestamp,
}

impl From<Tenant> for TenantBody {
    fn from(tenant: Tenant) -> Self {
        let Tenant { name, weight, quotas, created, .. } = tenant;
        Self { name, weight, quotas, created }
    }
}

/// A tenant to be added.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTenantBody {
    /// The name: 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit.
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    pub(crate) name: String,
    /// Its part of the machine, relative to the weights of the other tenants, 1 to 1000.
    #[serde(default = "default_weight")]
    #[schema(minimum = 1, maximum = 1000)]
    pub(crate) weight: u32,
    /// What it may use.
    #[serde(default)]
    pub(crate) quotas: Quotas,
}

/// The weight and quotas of a tenant.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaBody {
    /// Its part of the machine, relative to the weights of the other tenants, 1 to 1000.
    #[serde(default = "default_weight")]
    #[schema(minimum = 1, maximum = 1000)]
    pub(crate) weight: u32,
    /// What it may use.
    #[serde(default)]
    pub(crate) quotas: Quotas,
}

fn default_weight() -> u32 {
    DEFAULT_WEIGHT
}

fn check(weight: u32, quotas: &Quotas) -> Result<(), Problem> {
    if !(1..=MOST_WEIGHT).contains(&weight) {
        let detail = format!("weight: found {weight}; expected 1 to {MOST_WEIGHT}");
        return Err(Problem::invalid(detail));
    }
    if quotas.requests_per_second == Some(0) {
        return Err(Problem::invalid("quotas.requests_per_second: found 0; expected at least 1"));
    }
    Ok(())
}

/// Adds a tenant.
#[utoipa::path(
    post, path = "/v1/tenants", tag = "tenants", request_body = NewTenantBody,
    responses(
        (status = 201, body = TenantBody),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "There is a tenant of this name."),
        (status = "4XX", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn add_tenant(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Json(body): Json<NewTenantBody>,
) -> Result<Response, Problem> {
    blocking(move || {
        let tenant = added_tenant(&server, &caller, body)?;
        let body = tagged(tenant.version, Json(TenantBody::from(tenant)));
        Ok((StatusCode::CREATED, body).into_response())
    })
    .await
}

/// Adds a tenant.
///
/// # Errors
/// If the caller is not an operator, or there is a tenant of this name.
pub(crate) fn added_tenant(
    server: &Server,
    caller: &Caller,
    body: NewTenantBody,
) -> Result<Tenant, Problem> {
    operators_only(caller)?;
    check(body.weight, &body.quotas)?;
    let name = TenantName::try_from(body.name)?;
    let weight = body.weight;
    let quotas = body.quotas;
    let tenant = Tenant { name: name.clone(), weight, quotas, created: now(), version: 1 };
    let entry = caller.audit("tenant.add", Some(&name), name.as_str(), String::new());
    if !server.state.add_tenant(&tenant, &entry)? {
        return Err(Problem::conflict(format!("there is a tenant {name} already")));
    }
    Ok(tenant)
}

fn operators_only(caller: &Caller) -> Result<(), Problem> {
    caller.is_operator().then_some(()).ok_or_else(Problem::operators_only)
}

/// Lists the tenants.
#[utoipa::path(
    get, path = "/v1/tenants", tag = "tenants", params(PageAsked),
    responses((status = 200, body = Page<TenantBody>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_tenants(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<PageAsked>,
) -> Result<Json<Page<TenantBody>>, Problem> {
    blocking(move || Ok(Json(listed_tenants(&server, &caller, &asked)?))).await
}

/// A page of tenants.
///
/// # Errors
/// If the caller is not an operator, or the query is not as documented.
pub(crate) fn listed_tenants(
    server: &Server,
    caller: &Caller,
    asked: &PageAsked,
) -> Result<Page<TenantBody>, Problem> {
    operators_only(caller)?;
    let (limit, after) = (asked.limit()?, asked.after::<TenantName>()?);
    let found = server.state.tenants(after.as_ref(), limit)?;
    let items = found.into_iter().map(TenantBody::from).collect();
    Ok(Page::new(items, limit, |tenant: &TenantBody| tenant.name.to_string()))
}

/// The tenant with this name, if the caller may see it.
///
/// # Errors
/// If there is no such tenant, or it is another one: the caller cannot tell these apart.
pub(crate) fn visible_tenant(
    server: &Server,
    caller: &Caller,
    name: String,
) -> Result<Tenant, Problem> {
    let missing = || Problem::not_found("tenant");
    let name = TenantName::try_from(name).map_err(|_| missing())?;
    if !caller.sees(&name) {
        return Err(missing());
    }
    server.state.tenant(&name)?.ok_or_else(missing)
}

/// Shows a tenant.
#[utoipa::path(
    get, path = "/v1/tenants/{name}", tag = "tenants",
    params(("name" = String, Path, description = "The name of the tenant.")),
    responses((status = 200, body = TenantBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_tenant(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    caller.must_have(Scope::ReadJobs)?;
    blocking(move || {
        let tenant = visible_tenant(&server, &caller, name)?;
        Ok(tagged(tenant.version, Json(TenantBody::from(tenant))))
    })
    .await
}

/// Replaces the weight and quotas of a tenant. Those that are left out have their defaults then.
#[utoipa::path(
    put, path = "/v1/tenants/{name}/quota", tag = "tenants",
    params(
        ("name" = String, Path, description = "The name of the tenant."),
        ("If-Match" = Option<String>, Header, description = "The ETag that the tenant must have."),
    ),
    request_body = QuotaBody,
    responses((status = 200, body = TenantBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn set_quota(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Json(body): Json<QuotaBody>,
) -> Result<Response, Problem> {
    blocking(move || {
        let changed = changed_quota(&server, &caller, name, &headers, body)?;
        Ok(tagged(changed.version, Json(TenantBody::from(changed))))
    })
    .await
}

/// Replaces the weight and quotas of a tenant. Returns the tenant as it is then.
///
/// # Errors
/// If the caller is not an operator, if there is no such tenant, or if it was changed meanwhile.
pub(crate) fn changed_quota(
    server: &Server,
    caller: &Caller,
    name: String,
    headers: &HeaderMap,
    body: QuotaBody,
) -> Result<Tenant, Problem> {
    operators_only(caller)?;
    check(body.weight, &body.quotas)?;
    let found = visible_tenant(server, caller, name)?;
    check_version(headers, found.version)?;
    let detail = serde_json::to_string(&body.quotas).unwrap_or_default();
    let detail = format!("weight {}, {detail}", body.weight);
    let entry = caller.audit("tenant.quota", Some(&found.name), found.name.as_str(), detail);
    let changed = Tenant { weight: body.weight, quotas: body.quotas, ..found };
    if !server.state.change_tenant(&changed, &entry)? {
        return Err(Problem::changed());
    }
    let version = changed.version + 1;
    Ok(Tenant { version, ..changed })
}
