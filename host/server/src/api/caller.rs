//! Finds who makes a request.

use crate::app::Server;
use crate::auth::{id_in, matches};
use crate::names::{TenantName, TokenId, now};
use crate::problem::{Problem, blocking};
use crate::state::{AuditEntry, Scope, Scopes, TokenRecord};
use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use std::sync::Arc;
use std::time::Instant;

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    token: TokenId,
    tenant: Option<TenantName>,
    scopes: Scopes,
}

impl Caller {
    /// The caller that has the token with this text. Counts the request.
    ///
    /// # Errors
    /// If the token does not count, or makes too many requests.
    pub(crate) async fn with_text(server: &Arc<Server>, text: String) -> Result<Self, Problem> {
        let id = id_in(&text).ok_or_else(Problem::wrong_token)?;
        Self::found(server, id, move |token| matches(&text, &token.hash)).await
    }

    /// The caller that has shown the text of the token with this id before. Counts the request.
    ///
    /// # Errors
    /// If the token no longer counts, or makes too many requests.
    pub(crate) async fn with_id(server: &Arc<Server>, id: TokenId) -> Result<Self, Problem> {
        Self::found(server, id, |_| true).await
    }

    async fn found(
        server: &Arc<Server>,
        id: TokenId,
        is_known: impl Fn(&TokenRecord) -> bool,
    ) -> Result<Self, Problem> {
        let (token, rate) = {
            let server = server.clone();
            let id = id.clone();
            let find = move || {
                let token = server.state.token(&id)?;
                let rate = server.rate_of(token.as_ref().and_then(|token| token.tenant.as_ref()));
                Ok((token, rate))
            };
            blocking(find).await?
        };
        let now = now();
        let counts = |token: &TokenRecord| is_known(token) && token.counts_at(now);
        let token = token.filter(counts).ok_or_else(Problem::wrong_token)?;
        // All tokens of a tenant count together: a tenant can make many.
        let counted = token.tenant.as_ref().map_or(id.as_str(), TenantName::as_str);
        server.rates.count(counted, rate, Instant::now()).map_err(Problem::too_often)?;
        server.uses.note(&id, now);
        Ok(Self { token: token.id, tenant: token.tenant, scopes: token.scopes })
    }

    /// The caller's name in the audit.
    pub(crate) fn actor(&self) -> String {
        format!("token:{}", self.token)
    }

    /// Fails if the caller may not do this.
    ///
    /// # Errors
    /// If the token lacks the scope.
    pub(crate) fn must_have(&self, scope: Scope) -> Result<(), Problem> {
        let has = self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin);
        has.then_some(()).ok_or_else(|| Problem::scope(scope))
    }

    /// The caller's token.
    pub(crate) fn token(&self) -> &TokenId {
        &self.token
    }

    /// Whether the caller is an operator.
    pub(crate) fn is_operator(&self) -> bool {
        self.tenant.is_none() && self.scopes.contains(&Scope::Admin)
    }

    /// The scopes of the caller's token.
    pub(crate) fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// The tenant to which the caller is limited. `None` for an operator, who sees all tenants.
    pub(crate) fn tenant(&self) -> Option<&TenantName> {
        self.tenant.as_ref()
    }

    /// Whether the caller may see what belongs to this tenant.
    pub(crate) fn sees(&self, tenant: &TenantName) -> bool {
        self.tenant.as_ref().map_or(self.is_operator(), |own| own == tenant)
    }

    /// The tenant for which the caller acts. `asked` is the tenant that an operator names.
    ///
    /// # Errors
    /// If a tenant asks for another tenant, or an operator names none.
    pub(crate) fn acts_for(&self, asked: Option<TenantName>) -> Result<TenantName, Problem> {
        match (&self.tenant, asked) {
            (Some(own), None) => Ok(own.clone()),
            (Some(own), Some(asked)) if *own == asked => Ok(asked),
            (Some(_), Some(_)) => Err(Problem::not_found("tenant")),
            (None, Some(asked)) => Ok(asked),
            (None, None) => Err(Problem::bad_request(
                "the token belongs to no tenant: name the tenant, as in ?tenant=NAME",
            )),
        }
    }

    /// An entry of the audit: what the caller does now.
    pub(crate) fn audit(
        &self,
        action: &'static str,
        tenant: Option<&TenantName>,
        target: &str,
        detail: String,
    ) -> AuditEntry {
        let (tenant, target) = (tenant.cloned(), target.to_owned());
        AuditEntry { at: now(), tenant, actor: self.actor(), action, target, detail }
    }
}

/// The text after `Bearer`. The name of the scheme may be in any case.
fn bearer(parts: &Parts) -> Option<String> {
    let header = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| text.trim().to_owned())
}

impl FromRequestParts<Arc<Server>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<Server>,
    ) -> Result<Self, Self::Rejection> {
        let text = bearer(parts).ok_or_else(Problem::no_token)?;
        Self::with_text(server, text).await
    }
}
