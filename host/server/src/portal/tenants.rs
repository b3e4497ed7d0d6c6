//! Tenants and their quotas. Operators change them; a tenant sees its own.

use super::fields::Fields;
use super::frame::{Frame, Page};
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::{PathParts, Query};
use super::table::{facts, next_page, table};
use super::text::time;
use super::visitor::{Posted, Visitor};
use crate::api::{
    NewTenantBody, PageAsked, QuotaBody, TenantBody, added_tenant, changed_quota, listed_tenants,
    visible_tenant,
};
use crate::app::Server;
use crate::problem::Problem;
use crate::state::{Quotas, Scope};
use axum::extract::State;
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Which tenants to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ListAsked {
    cursor: Option<String>,
}

/// To other callers, the pages of operators do not exist.
fn for_operators(visitor: &Visitor) -> Result<(), Problem> {
    visitor.caller.is_operator().then_some(()).ok_or_else(|| Problem::not_found("page"))
}

/// Lists the tenants.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    Query(ListAsked { cursor }): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    for_operators(&visitor)?;
    blocking(move || {
        let page = listed_tenants(&server, &visitor.caller, &PageAsked { cursor, limit: None })?;
        let frame = visitor.frame();
        let limit = |most: Option<u64>| most.map_or_else(|| "no limit".to_owned(), sandmill_model::count);
        let contents = html! {
            (table("Tenants", &["Name", "Weight", "Unfinished jobs", "Running jobs", "Added"], &html! {
                @for tenant in &page.items {
                    tr {
                        th scope="row" { a href={ "/portal/tenants/" (tenant.name) } { (tenant.name) } }
                        td.number { (tenant.weight) }
                        td.number { (limit(tenant.quotas.unfinished_jobs.map(u64::from))) }
                        td.number { (limit(tenant.quotas.running_jobs.map(u64::from))) }
                        td { (time(tenant.created)) }
                    }
                }
            }))
            (next_page(&Link::new("/portal/tenants"), page.next.as_ref()))
            h2 { "Add a tenant" }
            form.wide method="post" action="/portal/tenants" {
                (frame.secret_field())
                label for="name" { "Name" }
                input #name name="name" required pattern="[a-z0-9][a-z0-9_\\-]{0,63}" maxlength="64";
                (quota_fields(1, &Quotas::default()))
                button { "Add" }
            }
        };
        Ok(frame.page("Tenants", &contents))
    })
    .await
}

fn quota_fields(weight: u32, quotas: &Quotas) -> Markup {
    let field = |name: &str, label: &str, value: Option<u64>| {
        html! {
            label for=(name) { (label) }
            input id=(name) name=(name) type="number" min="0" placeholder="no limit" value=[value];
        }
    };
    html! {
        label for="weight" { "Weight: its part of the machine, relative to other tenants" }
        input #weight name="weight" type="number" min="1" max="1000" required value=(weight);
        (field("unfinished_jobs", "Most unfinished jobs", quotas.unfinished_jobs.map(u64::from)))
        (field("running_jobs", "Most running jobs", quotas.running_jobs.map(u64::from)))
        (field("upload_bytes", "Most bytes of entry scripts", quotas.upload_bytes))
        (field("requests_per_second", "Most requests a second", quotas.requests_per_second.map(u64::from)))
    }
}

fn quotas(fields: &Fields) -> Result<(u32, Quotas), Problem> {
    let read = || -> Result<_, String> {
        let quotas = Quotas {
            unfinished_jobs: fields.number("unfinished_jobs")?,
            running_jobs: fields.number("running_jobs")?,
            upload_bytes: fields.number("upload_bytes")?,
            requests_per_second: fields.number("requests_per_second")?,
        };
        Ok((fields.number("weight")?.unwrap_or(1), quotas))
    };
    read().map_err(Problem::invalid)
}

/// Adds a tenant.
pub(super) async fn add(
    State(server): State<Arc<Server>>,
    Posted { visitor, fields }: Posted,
) -> Result<Redirect, PageProblem> {
    for_operators(&visitor)?;
    let (weight, quotas) = quotas(&fields)?;
    let name = fields.get("name").trim().to_owned();
    let body = NewTenantBody { name, weight, quotas };
    let added = blocking(move || added_tenant(&server, &visitor.caller, body)).await?;
    Ok(Redirect::to(&format!("/portal/tenants/{}", added.name)))
}

/// Shows a tenant.
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    parts: PathParts,
) -> Result<Page, PageProblem> {
    blocking(move || {
        visitor.caller.must_have(Scope::ReadJobs)?;
        let tenant = visible_tenant(&server, &visitor.caller, parts.get("name").to_owned())?;
        let unfinished = server.state.unfinished_of(&tenant.name)?;
        let version = tenant.version;
        let tenant = TenantBody::from(tenant);
        let frame = visitor.frame();
        let contents = html! {
            (facts(&[
                ("Unfinished jobs now", Some(html! { (unfinished) })),
                ("Added", Some(time(tenant.created))),
            ]))
            @if frame.is_operator() { (change_form(&frame, &tenant, version)) } @else { (limits(&tenant)) }
        };
        Ok(frame.page(&format!("Tenant {}", tenant.name), &contents))
    })
    .await
}

fn limits(tenant: &TenantBody) -> Markup {
    let limit = |most: Option<u64>| {
        Some(
            html! { @match most { Some(most) => { (sandmill_model::count(most)) } None => { "no limit" } } },
        )
    };
    let quotas = &tenant.quotas;
    html! {
        h2 { "Quotas" }
        (facts(&[
            ("Weight", Some(html! { (tenant.weight) })),
            ("Most unfinished jobs", limit(quotas.unfinished_jobs.map(u64::from))),
            ("Most running jobs", limit(quotas.running_jobs.map(u64::from))),
            ("Most bytes of entry scripts", limit(quotas.upload_bytes)),
            ("Most requests a second", Some(html! { (quotas.requests_per_second.map_or_else(|| "the default".to_owned(), |most| most.to_string())) })),
        ]))
    }
}

fn change_form(frame: &Frame, tenant: &TenantBody, version: u64) -> Markup {
    html! {
        p {
            a href=(Link::new("/portal/jobs").with("tenant", Some(&tenant.name)).address()) { "Jobs" } " · "
            a href=(Link::new("/portal/components").with("tenant", Some(&tenant.name)).address()) { "Components" } " · "
            a href=(Link::new("/portal/tokens").with("tenant", Some(&tenant.name)).address()) { "Tokens" }
        }
        h2 { "Quotas" }
        form.wide method="post" action={ "/portal/tenants/" (tenant.name) "/quota" } {
            (frame.secret_field())
            input type="hidden" name="version" value=(version);
            (quota_fields(tenant.weight, &tenant.quotas))
            button { "Change" }
        }
    }
}

/// Changes the quotas of a tenant.
pub(super) async fn change(
    State(server): State<Arc<Server>>,
    parts: PathParts,
    Posted { visitor, fields }: Posted,
) -> Result<Redirect, PageProblem> {
    for_operators(&visitor)?;
    let name = parts.get("name").to_owned();
    let (weight, quotas) = quotas(&fields)?;
    // The form is that of a version of the tenant.
    let version: Option<u64> = fields.number("version").map_err(Problem::invalid)?;
    let tag = HeaderValue::try_from(format!("\"{}\"", version.unwrap_or_default()));
    let headers: HeaderMap = tag.into_iter().map(|tag| (IF_MATCH, tag)).collect();
    let body = QuotaBody { weight, quotas };
    let changed =
        blocking(move || changed_quota(&server, &visitor.caller, name, &headers, body)).await?;
    Ok(Redirect::to(&format!("/portal/tenants/{}", changed.name)))
}
