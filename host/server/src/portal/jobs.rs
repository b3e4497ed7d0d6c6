//! Lists jobs.

use super::frame::{Frame, Page};
use super::job::phase_word;
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::Query;
use super::table::{choices, next_page, table};
use super::text::{message, name, time};
use super::visitor::Visitor;
use crate::api::{JobBody, JobsAsked, listed_jobs};
use crate::app::Server;
use crate::state::JobPhase;
use axum::extract::State;
use maud::{Markup, html};
use sandmill_model::count;
use serde::Deserialize;
use std::sync::Arc;

/// Which jobs to list. An empty field of the form filters nothing.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ListAsked {
    phase: Option<String>,
    q: Option<String>,
    label: Option<String>,
    tenant: Option<String>,
    cursor: Option<String>,
}

fn filled(value: Option<&String>) -> Option<String> {
    value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

impl ListAsked {
    fn link(&self) -> Link {
        Link::new("/portal/jobs")
            .with("phase", self.phase.as_ref())
            .with("q", self.q.as_ref())
            .with("label", self.label.as_ref())
            .with("tenant", self.tenant.as_ref())
    }

    fn filter(&self) -> JobsAsked {
        JobsAsked {
            phase: filled(self.phase.as_ref()),
            q: filled(self.q.as_ref()),
            label: filled(self.label.as_ref()),
            tenant: filled(self.tenant.as_ref()),
            cursor: self.cursor.clone(),
            limit: None,
        }
    }
}

/// Lists jobs, the latest first.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    visitor: Visitor,
    Query(asked): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let frame = visitor.frame();
        let page = listed_jobs(&server, &visitor.caller, asked.filter())?;
        let contents = html! {
            (filter(&asked, &frame))
            @if page.items.is_empty() {
                p { "No job matches." @if frame.may_write() { " " a href="/portal/submit" { "Submit one" } "." } }
            } @else {
                (listed(&page.items, frame.is_operator()))
            }
            (next_page(&asked.link(), page.next.as_ref()))
        };
        Ok(frame.page("Jobs", &contents))
    })
    .await
}

fn filter(asked: &ListAsked, frame: &Frame) -> Markup {
    let phases = JobPhase::NAMED.map(|(name, _)| name);
    html! {
        form.filter method="get" {
            label { "State " select name="phase" { (choices(&phases, asked.phase.as_deref(), "all")) } }
            label { "Name with " input name="q" type="search" value=[asked.q.as_ref()]; }
            label { "Label " input name="label" placeholder="team=red" value=[asked.label.as_ref()]; }
            @if frame.is_operator() { label { "Tenant " input name="tenant" value=[asked.tenant.as_ref()]; } }
            button { "Filter" }
        }
    }
}

fn listed(jobs: &[JobBody], with_tenant: bool) -> Markup {
    let mut heads = vec!["Name", "State", "Ended", "Failed", "Submitted", "Priority"];
    if with_tenant {
        heads.insert(1, "Tenant");
    }
    table(
        "Jobs",
        &heads,
        &html! {
            @for job in jobs {
                @let ended = job.counts.succeeded + job.counts.failed;
                tr {
                    th scope="row" { a href={ "/portal/jobs/" (job.id) } { (name(&job.name)) } }
                    @if with_tenant { td { (job.tenant) } }
                    td { (phase_word(job.phase.name())) @if let Some(why) = &job.waits { br; small { (message(why)) } } }
                    td.number { (count(ended)) " of " (count(job.counts.planned)) }
                    td.number { (count(job.counts.failed)) }
                    td { (time(job.submitted)) }
                    td.number { (job.priority) }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_keeps_the_filters_and_empty_fields_filter_nothing() {
        let asked = ListAsked {
            phase: Some(String::new()),
            q: Some("a b".to_owned()),
            label: Some("team=red".to_owned()),
            ..ListAsked::default()
        };
        let text = next_page(&asked.link(), Some(&"abc".to_owned())).into_string();
        assert!(
            text.contains("/portal/jobs?q=a%20b&amp;label=team%3Dred&amp;cursor=abc"),
            "{text}"
        );
        assert_eq!(asked.filter().phase, None);
        let hostile = ListAsked { q: Some("\"><script>".to_owned()), ..ListAsked::default() };
        assert!(!filter(&hostile, &Frame::default()).into_string().contains("<script"));
    }
}
