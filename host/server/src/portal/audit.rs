//! What was done by whom.

use super::frame::Page;
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::Query;
use super::table::{next_page, table};
use super::text::{name, time};
use super::visitor::Visitor;
use crate::api::{PageAsked, listed_audit};
use crate::app::Server;
use crate::state::AuditRecord;
use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Which entries to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ListAsked {
    cursor: Option<String>,
}

/// Lists the entries, the latest first.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    Query(ListAsked { cursor }): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let page = listed_audit(&server, &visitor.caller, &PageAsked { cursor, limit: None })?;
        let contents = html! {
            (table("Audit", &["When", "Who", "What", "Of what", "More"], &html! {
                @for entry in &page.items { (row(entry)) }
            }))
            (next_page(&Link::new("/portal/audit"), page.next.as_ref()))
        };
        Ok(visitor.frame().page("Audit", &contents))
    })
    .await
}

fn row(entry: &AuditRecord) -> Markup {
    let job = entry.action.strip_prefix("job.").map(|_| format!("/portal/jobs/{}", entry.target));
    html! {
        tr {
            td { (time(entry.at)) }
            td { code { (name(&entry.actor)) } @if let Some(tenant) = &entry.tenant { br; (tenant) } }
            td { (name(&entry.action)) }
            td {
                @match job {
                    Some(address) => { a href=(address) { (name(&entry.target)) } }
                    None => { (name(&entry.target)) }
                }
            }
            td { (name(&entry.detail)) }
        }
    }
}
