//! The failures of a job by their causes, and the items that failed.

use super::frame::Page;
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::{Query, SeenJob};
use super::table::{next_page, table};
use super::text::{message, name, shortened};
use crate::api::{FailedItemBody, PageAsked, listed_failed_items, open_below, send};
use crate::jobs::FailureGroupRow;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use sandmill_model::count;
use serde::Deserialize;

/// The longest reason in the list of items.
const MOST_REASON: usize = 500;

/// One cause of failed attempts.
struct Cause {
    kind: String,
    message: String,
    detail: String,
    attempts: u64,
    mini_batches: Vec<u64>,
    has_more: bool,
}

/// Groups the failures of a job by their causes.
pub(super) async fn list(seen: SeenJob) -> Result<Page, PageProblem> {
    blocking(move || {
        let (kinds, causes, init) = seen.look(|view| {
            let history = view.history();
            let causes = history.groups.iter().map(|group| Cause {
                kind: group.failure.kind.to_string(),
                message: group.failure.message.clone(),
                detail: group.failure.detail.clone(),
                attempts: group.count,
                mini_batches: group.mini_batches.iter().map(|id| id.0).collect(),
                has_more: group.has_more_mini_batches,
            });
            Ok((view.failure_groups()?, causes.collect::<Vec<_>>(), history.first_init_failure.clone()))
        })?;
        let contents = html! {
            @if let Some((worker, failure)) = &init {
                h2 { "A worker could not start" }
                p { (name(worker)) ": " code { (failure.kind) } }
                pre.error { (message(&failure.message)) }
            }
            @if kinds.is_empty() && causes.is_empty() && init.is_none() { p { "Nothing has failed." } }
            @if !kinds.is_empty() {
                h2 { "Mini-batches that failed for good" }
                (table("Mini-batches that failed for good", &["Cause", "Mini-batches", "The first one", "Why"], &html! {
                    @for kind in &kinds { (kind_row(kind, &seen.base)) }
                }))
            }
            @if !causes.is_empty() {
                h2 { "Failed attempts in this run" }
                @for cause in &causes { (cause_shown(cause, &seen.base)) }
            }
        };
        Ok(seen.page(&format!("Failures of {}", seen.job.name), "/failures", &contents))
    })
    .await
}

fn kind_row(row: &FailureGroupRow, base: &str) -> Markup {
    let list = Link::new(format!("{base}/mini-batches"))
        .with("state", Some("failed"))
        .with("kind", Some(&row.failure_kind));
    html! {
        tr {
            th scope="row" { code { (name(&row.failure_kind)) } }
            td.number { a href=(list.address()) { (count(row.mini_batches)) } }
            td { a href={ (base) "/mini-batches/" (row.first) } { (row.first) } }
            td { (shortened(&name(&row.message), MOST_REASON)) }
        }
    }
}

fn cause_shown(cause: &Cause, base: &str) -> Markup {
    html! {
        section.cause {
            h3 { code { (name(&cause.kind)) } " in " (count(cause.attempts)) @if cause.attempts == 1 { " attempt" } @else { " attempts" } }
            pre.error { (message(&cause.message)) }
            @if !cause.detail.is_empty() {
                details { summary { "The stack" } pre { (message(&cause.detail)) } }
            }
            p {
                "Mini-batches: "
                @for number in &cause.mini_batches { a href={ (base) "/mini-batches/" (number) } { (number) } " " }
                @if cause.has_more { "and others" }
            }
        }
    }
}

/// Which items to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ItemsAsked {
    cursor: Option<String>,
}

/// Lists the items that failed for good.
pub(super) async fn items(
    seen: SeenJob,
    Query(ItemsAsked { cursor }): Query<ItemsAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let page = listed_failed_items(&seen.dir, &PageAsked { cursor, limit: None })?;
        let link = Link::new(format!("{}/failed-items", seen.base));
        let contents = html! {
            @if page.items.is_empty() {
                p { "No item has failed for good." }
            } @else {
                p { a href={ (seen.base) "/failed-items.csv" } { "Download all of them (CSV)" } }
                (table("Failed items", &["Item", "Place", "Mini-batch", "Cause", "Reason"], &html! {
                    @for item in &page.items { (item_row(item, &seen.base)) }
                }))
            }
            (next_page(&link, page.next.as_ref()))
        };
        Ok(seen.page(&format!("Failed items of {}", seen.job.name), "/failed-items", &contents))
    })
    .await
}

fn item_row(item: &FailedItemBody, base: &str) -> Markup {
    html! {
        tr {
            th scope="row" { (shortened(&name(&item.item), MOST_REASON)) }
            td {
                (name(&item.file))
                @if let Some(line) = item.line { ", line " (line) }
                @else if let Some(row) = item.row { ", row " (row) }
            }
            td { a href={ (base) "/mini-batches/" (item.mini_batch) } { (item.mini_batch) } }
            td { code { (name(&item.kind)) } }
            td { (shortened(&name(&item.reason), MOST_REASON)) }
        }
    }
}

/// Downloads the report of all items that failed.
pub(super) async fn items_csv(seen: SeenJob, headers: HeaderMap) -> Result<Response, PageProblem> {
    blocking(move || {
        let path = seen.dir.failed_items();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(seen.dir.root());
        send(open_below(folder, &name)?, &headers, "failed_items.csv")
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_items_and_causes_are_escaped() {
        let hostile = "</pre><script>alert(1)</script>\u{2066}".to_owned();
        let cause = Cause {
            kind: "script_error".to_owned(),
            message: hostile.clone(),
            detail: hostile.clone(),
            attempts: 1,
            mini_batches: vec![3],
            has_more: true,
        };
        let row = FailureGroupRow {
            failure_kind: hostile.clone(),
            mini_batches: 2,
            first: 3,
            message: hostile,
        };
        for text in
            [cause_shown(&cause, "/job"), kind_row(&row, "/job")].map(maud::PreEscaped::into_string)
        {
            assert!(!text.contains("<script") && text.contains("\\u{2066}"), "{text}");
        }
        let link = kind_row(&row, "/job").into_string();
        assert!(link.contains("state=failed&amp;kind=%3C%2Fpre%3E"), "{link}");
    }
}
