//! Tokens: lists, makes and revokes them.

use super::frame::{Frame, Page};
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::{PathParts, Query};
use super::table::{next_page, table};
use super::text::{name, time, time_or};
use super::visitor::{Posted, Visitor};
use crate::api::{NewTokenBody, TokenBody, TokensAsked, listed_tokens, made_token, revoke};
use crate::app::Server;
use crate::names::now;
use crate::problem::Problem;
use crate::state::Scope;
use axum::extract::State;
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Which tokens to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ListAsked {
    tenant: Option<String>,
    cursor: Option<String>,
}

/// Lists tokens.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    Query(asked): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let frame = visitor.frame();
        let tenant = asked.tenant.filter(|tenant| !tenant.is_empty());
        let wanted = TokensAsked { tenant: tenant.clone(), cursor: asked.cursor, limit: None };
        let page = listed_tokens(&server, &visitor.caller, wanted)?;
        let link = Link::new("/portal/tokens").with("tenant", tenant.as_ref());
        let contents = html! {
            @if frame.is_operator() {
                form.filter method="get" {
                    label { "Tenant " input name="tenant" placeholder="operators" value=[tenant.as_ref()]; }
                    button { "Show" }
                }
            }
            (table("Tokens", &["Id", "For", "Scopes", "Made", "Expires", "Last used", "Revoke"], &html! {
                @for token in &page.items { (row(token, &frame)) }
            }))
            (next_page(&link, page.next.as_ref()))
            (make_form(&visitor, &frame, tenant.as_deref()))
        };
        Ok(frame.page("Tokens", &contents))
    })
    .await
}

fn row(token: &TokenBody, frame: &Frame) -> Markup {
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
    let has_expired = token.expires.is_some_and(|expires| expires <= now());
    html! {
        tr {
            th scope="row" { code { (token.id) } }
            td { (name(&token.label)) }
            td { (scopes.join(", ")) }
            td { (time(token.created)) }
            td { (time_or(token.expires, "never")) @if has_expired { " (expired)" } }
            td { (time_or(token.last_used, "never")) }
            td {
                @if let Some(at) = token.revoked { "Revoked " (time(at)) }
                @else if !has_expired {
                    form method="post" action={ "/portal/tokens/" (token.id) "/revoke" }
                        data-confirm="Revoke the token? What uses it no longer works." {
                        (frame.secret_field())
                        button { "Revoke" }
                    }
                }
            }
        }
    }
}

fn make_form(visitor: &Visitor, frame: &Frame, tenant: Option<&str>) -> Markup {
    let may_give = |scope: Scope| {
        let is_possible = scope != Scope::Admin || frame.is_operator();
        is_possible && visitor.caller.must_have(scope).is_ok()
    };
    html! {
        h2 { "Make a token" }
        form.wide method="post" action="/portal/tokens" {
            (frame.secret_field())
            @if frame.is_operator() {
                label for="new-tenant" { "Tenant. Without it, the token is one of an operator, and needs the scope admin" }
                input #new-tenant name="tenant" value=[tenant];
            }
            label for="label" { "What it is for" }
            input #label name="label" maxlength="200";
            fieldset {
                legend { "What it allows" }
                @for (name, scope) in Scope::NAMED {
                    @if may_give(scope) {
                        label.check { input type="checkbox" name="scope" value=(name) checked[scope == Scope::ReadJobs]; " " (name) }
                    }
                }
            }
            label for="days" { "Days until it expires" }
            input #days name="days" type="number" min="1" max="3660" placeholder="never" value="90";
            button { "Make" }
        }
    }
}

/// Makes a token, and shows its text, once.
pub(super) async fn make(
    State(server): State<Arc<Server>>,
    Posted { visitor, fields }: Posted,
) -> Result<Page, PageProblem> {
    let mut scopes = Vec::new();
    for name in fields.all("scope") {
        let found = Scope::NAMED.iter().find(|(known, _)| *known == name);
        let found = found.ok_or_else(|| Problem::invalid(format!("scopes: found {name:?}")))?;
        scopes.push(found.1);
    }
    let days = fields.number("days").map_err(Problem::invalid)?;
    let label = fields.get("label").trim().to_owned();
    let body = NewTokenBody { tenant: fields.filled("tenant"), scopes, label, days };
    blocking(move || {
        let made = made_token(&server, &visitor.caller, body)?;
        let contents = html! {
            p { "This is the text of the token " code { (made.id) } ". Copy it now: it is shown only this once." }
            pre.secret tabindex="0" { (made.token.as_deref().unwrap_or_default()) }
            p { a href=(Link::new("/portal/tokens").with("tenant", made.tenant.filter(|_| visitor.caller.is_operator())).address()) { "To the tokens" } }
        };
        Ok(visitor.frame().page("A new token", &contents))
    })
    .await
}

/// Revokes a token.
pub(super) async fn remove(
    State(server): State<Arc<Server>>,
    parts: PathParts,
    Posted { visitor, .. }: Posted,
) -> Result<Redirect, PageProblem> {
    let id = parts.get("id").to_owned();
    blocking(move || revoke(&server, &visitor.caller, id)).await?;
    Ok(Redirect::to("/portal/tokens"))
}
