//! Tokens, for operators and for those who may make tokens of their tenant.

use super::caller::Caller;
use super::extract::{Json, Path, Query};
use super::paging::{Page, PageAsked};
use crate::app::Server;
use crate::auth::{NewSecret, new_secret};
use crate::names::{TenantName, TokenId, now};
use crate::problem::{Problem, ProblemBody, blocking};
use crate::state::{Scope, Scopes, TokenRecord};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The longest label.
const MOST_LABEL: usize = 200;
/// The days for which a token may count.
const MOST_DAYS: u32 = 3660;

/// A token, without its text.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TokenBody {
    /// The id.
    #[schema(value_type = String)]
    pub(crate) id: TokenId,
    /// The tenant. Absent for a token of an operator.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<TenantName>,
    /// What it allows.
    #[schema(value_type = Vec<Scope>)]
    pub(crate) scopes: Scopes,
    /// What it is for.
    pub(crate) label: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created: Timestamp,
    /// From when it no longer counts.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Timestamp>,
    /// When it was last used, to about a minute.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used: Option<Timestamp>,
    /// When it was revoked.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked: Option<Timestamp>,
    /// Its text. Only the answer to the request that makes the token has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl From<TokenRecord> for TokenBody {
    fn from(record: TokenRecord) -> Self {
        let TokenRecord { id, tenant, scopes, label, created, expires, last_used, revoked, .. } =
            record;
        Self { id, tenant, scopes, label, created, expires, last_used, revoked, token: None }
    }
}

/// A token to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenBody {
    /// For operators: the tenant. Without it, the token is one of an operator.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// What it allows. A caller can give only what its own token allows.
    #[schema(min_items = 1)]
    pub(crate) scopes: Vec<Scope>,
    /// What it is for, at most 200 bytes.
    #[serde(default)]
    pub(crate) label: String,
    /// The days for which it counts, 1 to 3660. Without it, it counts until it is revoked.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3660)]
    pub(crate) days: Option<u32>,
}

/// Makes a token. The answer has its text, which is never shown again.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", request_body = NewTokenBody,
    responses((status = 201, body = TokenBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn make_token(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Json(body): Json<NewTokenBody>,
) -> Result<Response, Problem> {
    let made = blocking(move || made_token(&server, &caller, body)).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Makes a token, with its text.
///
/// # Errors
/// If the caller may not make such a token.
pub(crate) fn made_token(
    server: &Server,
    caller: &Caller,
    body: NewTokenBody,
) -> Result<TokenBody, Problem> {
    caller.must_have(Scope::WriteTokens)?;
    let asked = body.tenant.map(TenantName::try_from).transpose()?;
    let tenant = match (caller.is_operator(), asked) {
        (true, None) => None,
        (_, asked) => Some(caller.acts_for(asked)?),
    };
    let scopes: Scopes = body.scopes.into_iter().collect();
    check_scopes(caller, tenant.as_ref(), &scopes)?;
    if body.label.len() > MOST_LABEL {
        return Err(Problem::invalid(format!("label: expected at most {MOST_LABEL} bytes")));
    }
    if body.days.is_some_and(|days| !(1..=MOST_DAYS).contains(&days)) {
        return Err(Problem::invalid(format!("days: expected 1 to {MOST_DAYS}")));
    }
    let now = now();
    let hours = body.days.map(|days| (i64::from(days) * 24).hours());
    let expires = hours.map(|hours| now.saturating_add(hours)).transpose();
    let expires = expires.map_err(|error| Problem::internal(&error))?;
    if let Some(tenant) = &tenant {
        server.state.tenant(tenant)?.ok_or_else(|| Problem::not_found("tenant"))?;
    }
    let NewSecret { id, text, hash } = new_secret();
    let entry = caller.audit("token.make", tenant.as_ref(), id.as_str(), body.label.clone());
    let record = TokenRecord {
        id,
        hash,
        tenant,
        scopes,
        label: body.label,
        created: now,
        expires,
        last_used: None,
        revoked: None,
    };
    server.state.add_token(&record, &entry)?;
    Ok(TokenBody { token: Some(text), ..TokenBody::from(record) })
}

/// Checks that the caller gives no more than it has.
fn check_scopes(
    caller: &Caller,
    tenant: Option<&TenantName>,
    scopes: &Scopes,
) -> Result<(), Problem> {
    if scopes.is_empty() {
        return Err(Problem::invalid("scopes: found none; expected at least one"));
    }
    if tenant.is_some() && scopes.contains(&Scope::Admin) {
        return Err(Problem::invalid("scopes: a token with a tenant cannot have the scope admin"));
    }
    if tenant.is_none() && !scopes.contains(&Scope::Admin) {
        return Err(Problem::invalid(
            "scopes: a token without a tenant needs the scope admin; to make a token of a tenant, name it in `tenant`",
        ));
    }
    scopes.iter().try_for_each(|scope| caller.must_have(*scope))
}

/// Which tokens to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TokensAsked {
    /// For operators: the tenant. Without it, the tokens of operators.
    pub(crate) tenant: Option<String>,
    /// The `next` of the page before. Leave it out for the first page.
    pub(crate) cursor: Option<String>,
    /// The most entries, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    pub(crate) limit: Option<u32>,
}

/// Lists tokens, also those that no longer count.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", params(TokensAsked),
    responses((status = 200, body = Page<TokenBody>), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn list_tokens(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(asked): Query<TokensAsked>,
) -> Result<Json<Page<TokenBody>>, Problem> {
    blocking(move || Ok(Json(listed_tokens(&server, &caller, asked)?))).await
}

/// A page of tokens.
///
/// # Errors
/// If the caller may not read them, or the query is not as documented.
pub(crate) fn listed_tokens(
    server: &Server,
    caller: &Caller,
    asked: TokensAsked,
) -> Result<Page<TokenBody>, Problem> {
    caller.must_have(Scope::WriteTokens)?;
    let tenant = asked.tenant.map(TenantName::try_from).transpose()?;
    let tenant = match (caller.is_operator(), tenant) {
        (true, None) => None,
        (_, asked) => Some(caller.acts_for(asked)?),
    };
    let page = PageAsked { cursor: asked.cursor, limit: asked.limit };
    let (limit, after) = (page.limit()?, page.after::<TokenId>()?);
    let found = server.state.tokens(tenant.as_ref(), after.as_ref(), limit)?;
    let items = found.into_iter().map(TokenBody::from).collect();
    Ok(Page::new(items, limit, |token: &TokenBody| token.id.to_string()))
}

/// Revokes a token: it no longer counts.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The id of the token.")),
    responses((status = 204), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn revoke_token(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    blocking(move || revoke(&server, &caller, id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Revokes a token. Has no effect if it was revoked before.
///
/// # Errors
/// If the caller may not do this, or there is no such token.
pub(crate) fn revoke(server: &Server, caller: &Caller, id: String) -> Result<(), Problem> {
    caller.must_have(Scope::WriteTokens)?;
    let found = server.state.token(&TokenId::try_from(id)?)?;
    let is_visible = |token: &TokenRecord| match &token.tenant {
        Some(tenant) => caller.sees(tenant),
        None => caller.is_operator(),
    };
    let found = found.filter(is_visible).ok_or_else(|| Problem::not_found("token"))?;
    let entry =
        caller.audit("token.revoke", found.tenant.as_ref(), found.id.as_str(), String::new());
    Ok(server.state.revoke_token(&found.id, now(), &entry)?)
}

/// Who the caller is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct CallerBody {
    /// The caller's name in the audit.
    actor: String,
    /// The tenant. Absent for an operator.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<TenantName>,
    /// What the token allows.
    #[schema(value_type = Vec<Scope>)]
    scopes: Scopes,
}

/// Shows who the caller is, and what the token allows.
#[utoipa::path(
    get, path = "/v1/me", tag = "tokens",
    responses((status = 200, body = CallerBody), (status = "4XX", body = ProblemBody, content_type = "application/problem+json")),
)]
pub(crate) async fn show_caller(caller: Caller) -> Json<CallerBody> {
    let scopes = caller.scopes().clone();
    Json(CallerBody { actor: caller.actor(), tenant: caller.tenant().cloned(), scopes })
}
