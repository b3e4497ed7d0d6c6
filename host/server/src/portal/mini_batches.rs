//! Lists the mini-batches of a job, and shows the attempts at one of them.

use super::frame::Page;
use super::heat::{MOST_CELLS, heat};
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::seen::{PathParts, Query, SeenJob};
use super::table::{choices, facts, next_page, table};
use super::text::{message, name, seconds, shortened, time, time_or};
use super::timeline::timeline;
use crate::api::{Page as ListPage, PageAsked};
use crate::jobs::{AttemptRow, MiniBatchRow, MiniBatchState, MiniBatchesAsked};
use crate::names::now;
use crate::problem::Problem;
use maud::{Markup, html};
use sandmill_model::count;
use sandmill_report::logged_lines;
use serde::Deserialize;

/// The rows of a page.
const ROWS: u32 = 50;
/// The most log lines of an attempt.
const MOST_LINES: usize = 200;
/// The longest message in a list.
const MOST_CELL: usize = 200;

/// Which mini-batches to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ListAsked {
    state: Option<String>,
    kind: Option<String>,
    /// The number of the first one.
    from: Option<String>,
    cursor: Option<String>,
}

impl ListAsked {
    fn state(&self) -> Result<Option<MiniBatchState>, Problem> {
        let Some(name) = self.state.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let found = MiniBatchState::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, state)| Some(*state)).ok_or_else(|| Problem::bad_request("state: unknown"))
    }

    fn kind(&self) -> Option<String> {
        self.kind.clone().filter(|kind| !kind.is_empty())
    }

    /// The number after which the page begins.
    fn after(&self) -> Result<Option<u64>, Problem> {
        if self.cursor.is_some() {
            return PageAsked { cursor: self.cursor.clone(), limit: None }.after_number();
        }
        let Some(from) = self.from.as_deref().filter(|from| !from.is_empty()) else {
            return Ok(None);
        };
        let from: u64 =
            from.trim().parse().map_err(|_| Problem::bad_request("from: expected a number"))?;
        Ok(from.checked_sub(1))
    }

    fn link(&self, base: &str) -> Link {
        Link::new(format!("{base}/mini-batches"))
            .with("state", self.state.as_ref())
            .with("kind", self.kind.as_ref())
    }
}

/// Lists mini-batches.
pub(super) async fn list(
    seen: SeenJob,
    Query(asked): Query<ListAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let limit = ROWS + 1;
        let wanted =
            MiniBatchesAsked { state: asked.state()?, failure_kind: asked.kind(), after: asked.after()?, limit };
        let (map, rows, kinds) = seen.look(|view| {
            let kinds = view.failure_groups()?.into_iter().map(|group| group.failure_kind);
            Ok((view.heat(MOST_CELLS)?, view.mini_batches(&wanted)?, kinds.collect::<Vec<_>>()))
        })?;
        let rows = ListPage::new(rows, limit, |row| row.id.to_string());
        let link = asked.link(&seen.base);
        let contents = html! {
            (heat(&map, &link))
            (filter(&asked, &kinds))
            @if rows.items.is_empty() {
                p { "No mini-batch matches. Those that no worker has begun are not listed." }
            } @else {
                (table("Mini-batches", &["Number", "State", "Attempts", "Items", "Failed items", "Rows", "Time", "Data", "Last failure"], &html! {
                    @for row in &rows.items { (listed(row, &seen.base)) }
                }))
            }
            (next_page(&link, rows.next.as_ref()))
        };
        Ok(seen.page(&format!("Mini-batches of {}", seen.job.name), "/mini-batches", &contents))
    })
    .await
}

fn filter(asked: &ListAsked, kinds: &[String]) -> Markup {
    let states = MiniBatchState::NAMED.map(|(name, _)| name);
    let mut causes: Vec<&str> = kinds.iter().map(String::as_str).collect();
    // The cause in the address may be one of attempts that are repeated.
    causes.extend(
        asked
            .kind
            .as_deref()
            .filter(|kind| !kind.is_empty() && !kinds.iter().any(|known| known == kind)),
    );
    html! {
        form.filter method="get" {
            label { "State " select name="state" { (choices(&states, asked.state.as_deref(), "all")) } }
            @if !causes.is_empty() {
                label { "Cause " select name="kind" { (choices(&causes, asked.kind.as_deref(), "all")) } }
            }
            label { "From number " input name="from" inputmode="numeric" size="8" value=[asked.from.as_ref()]; }
            button { "Filter" }
        }
    }
}

fn listed(row: &MiniBatchRow, base: &str) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ (base) "/mini-batches/" (row.id) } { (row.id) } }
            td { (state_word(row.state.name())) }
            td.number { (row.attempts) }
            td.number { (count(row.items)) }
            td.number { (count(row.items_failed)) }
            td.number { (count(row.rows)) }
            td.number { @if row.seconds > 0.0 { (seconds(row.seconds)) } }
            td { (shortened(&name(&row.location), MOST_CELL)) }
            td {
                @if let Some(kind) = &row.failure_kind { code { (name(kind)) } " " }
                @if let Some(text) = &row.failure_message { (shortened(&name(text), MOST_CELL)) }
            }
        }
    }
}

/// The word for the state of a mini-batch or an attempt, with a colour.
fn state_word(state: &str) -> Markup {
    html! { span class={ "phase phase-" (state) } { (state) } }
}

/// Shows a mini-batch with its attempts, and what was logged in each of them.
pub(super) async fn show(seen: SeenJob, parts: PathParts) -> Result<Page, PageProblem> {
    blocking(move || {
        let missing = || Problem::not_found("mini-batch, or no worker has begun it");
        let number: u64 = parts.get("number").parse().map_err(|_| missing())?;
        let found = seen.look(|view| view.mini_batch(number))?;
        let (row, attempts) = found.ok_or_else(missing)?;
        let contents = html! {
            (facts(&[
                ("State", Some(state_word(row.state.name()))),
                ("Data", Some(html! { (name(&row.location)) })),
                ("Items", Some(html! { (count(row.items)) ", of which " (count(row.items_failed)) " failed" })),
                ("Rows", Some(html! { (count(row.rows)) })),
            ]))
            (timeline(&attempts, now()))
            @for attempt in &attempts { (shown_attempt(&seen, attempt)) }
        };
        Ok(seen.page(&format!("Mini-batch {number} of {}", seen.job.name), "/mini-batches", &contents))
    })
    .await
}

fn shown_attempt(seen: &SeenJob, attempt: &AttemptRow) -> Markup {
    let spent = |seconds_spent: Option<f64>| seconds_spent.map(|spent| html! { (seconds(spent)) });
    html! {
        section.attempt {
            h2 { "Attempt " (attempt.attempt) " " (state_word(&attempt.state)) }
            (facts(&[
                ("Worker", Some(html! { (name(&attempt.worker)) })),
                ("Began", Some(time(attempt.started))),
                ("Ended", attempt.ended.map(|at| time_or(Some(at), ""))),
                ("Time", spent(attempt.seconds)),
                ("In run", spent(attempt.run_seconds)),
                ("CPU", spent(attempt.cpu_seconds)),
                ("Failure", attempt.failure_kind.as_ref().map(|kind| html! { code { (name(kind)) } })),
            ]))
            @if let Some(text) = &attempt.failure_message { pre.error { (message(text)) } }
            @if seen.frame.may_read_logs() { (log_of(seen, attempt)) }
        }
    }
}

/// What the entry script logged while its worker made an attempt.
fn log_of(seen: &SeenJob, attempt: &AttemptRow) -> Markup {
    let span = (attempt.started, attempt.ended.unwrap_or_else(now));
    let read = logged_lines(&seen.dir, &attempt.worker, span, MOST_LINES);
    html! {
        @match read {
            Ok((lines, has_more)) if !lines.is_empty() => {
                h3 { "Log" }
                pre.log tabindex="0" { @for line in &lines { (shortened(line, 2000)) "\n" } }
                @if has_more { p.note { "These are the first " (lines.len()) " lines. " a href={ (seen.base) "/logs" } { "The logs" } " have the others." } }
            }
            Ok(_) => { p.note { "It logged nothing." } }
            Err(_) => { p.note { "Its log cannot be read." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of a job whose entry script wants to run a script in the browser.
    #[test]
    fn hostile_texts_are_shown_as_they_are() {
        let row = MiniBatchRow {
            id: 7,
            state: MiniBatchState::Failed,
            attempts: 1,
            location: "<img src=x onerror=alert(1)>.csv".to_owned(),
            worker: "process000".to_owned(),
            items: 1,
            items_failed: 1,
            rows: 0,
            seconds: 1.0,
            failure_kind: Some("script_error".to_owned()),
            failure_message: Some("\"'><script>alert(2)</script>\u{202e}".to_owned()),
        };
        let text = listed(&row, "/job").into_string();
        assert!(!text.contains("<img") && !text.contains("<script"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(2)&lt;/script&gt;\\u{202e}"), "{text}");
        let asked = ListAsked { kind: Some("\"><script>".to_owned()), ..ListAsked::default() };
        assert!(!filter(&asked, &[]).into_string().contains("<script"));
    }

    #[test]
    fn the_next_page_keeps_the_filters() {
        let asked = ListAsked {
            state: Some("failed".to_owned()),
            kind: Some("bad_input".to_owned()),
            ..ListAsked::default()
        };
        let text = next_page(&asked.link("/job"), Some(&"abc".to_owned())).into_string();
        assert!(
            text.contains("/job/mini-batches?state=failed&amp;kind=bad_input&amp;cursor=abc"),
            "{text}"
        );
        let from =
            |from: &str| ListAsked { from: Some(from.to_owned()), ..ListAsked::default() }.after();
        assert_eq!(
            (from("0").unwrap(), from("10").unwrap(), from("").unwrap()),
            (None, Some(9), None)
        );
        assert!(from("x").is_err());
    }
}
