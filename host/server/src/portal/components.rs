//! Uploaded entry scripts.

use super::frame::{FORM_SECRET, Page};
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::{PathParts, Query};
use super::table::{facts, next_page, table};
use super::text::{bytes, encoded, name, time};
use super::visitor::{Visitor, check_site};
use crate::api::{
    ComponentsAsked, form_text, form_upload, found_component, listed_components, wrong_form,
};
use crate::app::Server;
use crate::names::TenantName;
use crate::problem::Problem;
use crate::state::Scope;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Which entry scripts to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ListAsked {
    tenant: Option<String>,
    cursor: Option<String>,
}

impl ListAsked {
    fn tenant(&self) -> Option<String> {
        self.tenant.clone().filter(|tenant| !tenant.is_empty())
    }
}

/// Lists a tenant's entry scripts. An operator chooses the tenant.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    Query(asked): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let frame = visitor.frame();
        let is_operator = frame.is_operator();
        let link = Link::new("/portal/components").with("tenant", asked.tenant());
        let listed = match is_operator && asked.tenant().is_none() {
            true => None,
            false => {
                let wanted = ComponentsAsked { tenant: asked.tenant(), cursor: asked.cursor.clone(), limit: None };
                Some(listed_components(&server, &visitor.caller, wanted)?)
            }
        };
        let query = asked.tenant().map_or_else(String::new, |tenant| format!("?tenant={}", encoded(&tenant)));
        let contents = html! {
            @if is_operator { (tenant_filter(asked.tenant.as_deref())) }
            @if let Some(page) = &listed {
                @if frame.may_write() {
                    form.filter method="post" action={ "/portal/components" (query) } enctype="multipart/form-data" {
                        (frame.secret_field())
                        label { "Entry script " input name="component" type="file" required accept=".wasm,.wat,.py,.js,.mjs,.ts"; }
                        button { "Upload" }
                    }
                }
                @if page.items.is_empty() { p { "No entry script was uploaded yet." } }
                @else {
                    (table("Components", &["Name", "Digest", "Size", "Uploaded"], &html! {
                        @for item in &page.items {
                            tr {
                                th scope="row" { a href={ "/portal/components/" (item.digest) (query) } { (name(&item.name)) } }
                                td { code { (item.digest.as_str().get(..16).unwrap_or_default()) "…" } }
                                td.number { (bytes(item.bytes)) }
                                td { (time(item.uploaded)) }
                            }
                        }
                    }))
                }
                (next_page(&link, page.next.as_ref()))
            }
        };
        Ok(frame.page("Components", &contents))
    })
    .await
}

/// The form in which an operator chooses a tenant.
fn tenant_filter(chosen: Option<&str>) -> Markup {
    html! {
        form.filter method="get" {
            label { "Tenant " input name="tenant" required value=[chosen]; }
            button { "Show" }
        }
    }
}

/// Shows an entry script.
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    parts: PathParts,
    Query(asked): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let digest = parts.get("digest").to_owned();
        let found = found_component(&server, &visitor.caller, digest, asked.tenant())?;
        let frame = visitor.frame();
        let contents = html! {
            (facts(&[
                ("Digest", Some(html! { code.long { (found.digest) } })),
                ("Size", Some(html! { (bytes(found.bytes)) })),
                ("Uploaded", Some(time(found.uploaded))),
            ]))
            p { "Give the digest when you submit a job. " code { "sandmill inspect FILE" } " shows what a component may do." }
        };
        Ok(frame.page(&found.name, &contents))
    })
    .await
}

/// Uploads an entry script.
pub(super) async fn upload(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    Query(asked): Query<ListAsked>,
    request: Request,
) -> Result<Redirect, PageProblem> {
    check_site(request.headers())?;
    let form = Multipart::from_request(request, &()).await;
    // A form of another kind has no secret.
    let mut form = form.map_err(|_| Problem::forged())?;
    let mut is_own = false;
    while let Some(field) = form.next_field().await.map_err(wrong_form)? {
        match field.name() {
            Some(FORM_SECRET) if !is_own => {
                visitor.check(&form_text(field, FORM_SECRET).await?)?;
                is_own = true;
            }
            Some("component") if is_own => {
                visitor.caller.must_have(Scope::WriteJobs)?;
                let tenant = asked.tenant().map(TenantName::try_from).transpose();
                let tenant = visitor.caller.acts_for(tenant.map_err(Problem::from)?)?;
                form_upload(&server, &visitor.caller, &tenant, field).await?;
                let list = Link::new("/portal/components").with("tenant", asked.tenant());
                return Ok(Redirect::to(&list.address()));
            }
            _ => break,
        }
    }
    // Without the secret, nothing else is read.
    match is_own {
        true => Err(Problem::invalid("the form has no entry script").into()),
        false => Err(Problem::forged().into()),
    }
}
