//! The first page of a job, and its explanation.

use super::frame::Page;
use super::page_problem::{PageProblem, blocking};
use super::seen::SeenJob;
use super::shown_job::ShownJob;
use super::table::facts;
use super::text::{aged, message, name, seconds, time_or};
use crate::api::FirstFailureBody;
use crate::names::now;
use crate::state::{JobCounts, JobWish};
use maud::{Markup, html};
use sandmill_model::count;
use sandmill_report::{advice_lines, explain_text};

/// Shows a part of a job's page.
type Part = fn(&SeenJob) -> Markup;

/// The parts of the page that change while the job runs: their ids, and what they show.
pub(super) const PARTS: [(&str, Part); 3] =
    [("progress", progress), ("causes", causes), ("actions", actions)];

/// Shows a job.
pub(super) async fn show(seen: SeenJob) -> Result<Page, PageProblem> {
    blocking(move || {
        let live = (!seen.job.has_ended).then(|| format!("{}/live", seen.base));
        let contents = html! {
            div data-live=[live] {
                @for (id, part) in PARTS {
                    section id=(id) { (part(&seen)) }
                }
            }
            (about(&seen.job))
        };
        Ok(seen.page(&seen.job.name, "", &contents))
    })
    .await
}

/// The word for a job's phase, with a colour.
pub(super) fn phase_word(phase: &str) -> Markup {
    html! { span class={ "phase phase-" (phase) } { (phase) } }
}

/// How far the job has come.
fn progress(seen: &SeenJob) -> Markup {
    let job = &seen.job;
    let ended = job.counts.succeeded + job.counts.failed;
    let rate =
        job.progress.rate.map(|rate| html! { (format!("{rate:.2}")) " mini-batches a second" });
    let left = job.progress.seconds_left.map(|left| html! { "about " (seconds(left)) });
    let word = job.progress.last_word.map(|word| match job.has_ended {
        true => time_or(Some(word), ""),
        false => aged(word, now()),
    });
    html! {
        p.standing {
            (phase_word(job.phase))
            @if let Some(wish) = pending(job) { " " span.pending { (wish) } }
            @if let Some(why) = &job.waits { " " span.why { "It waits: " (message(why)) "." } }
        }
        @if !job.reason.is_empty() { pre.error { (message(&job.reason)) } }
        @if job.counts.planned > 0 {
            label.bar {
                span {
                    (count(ended)) " of " (count(job.counts.planned)) @if !job.counts.planning_finished { " or more" }
                    " mini-batches ended"
                }
                progress max=(job.counts.planned) value=(ended) {}
            }
        }
        (counts(&job.counts, &seen.base))
        (facts(&[("Rate", rate), ("Time left", left), ("Last word", word)]))
    }
}

/// What the user wants, if the job has not done it yet.
fn pending(job: &ShownJob) -> Option<&'static str> {
    match (job.wish, job.has_ended) {
        (JobWish::Pause, false) if job.phase != "paused" => Some("It is being paused."),
        (JobWish::Cancel, false) => {
            Some("It is being cancelled: it finishes its running mini-batches.")
        }
        (JobWish::CancelAtOnce, false) => Some("It is being cancelled at once."),
        _ => None,
    }
}

fn counts(counts: &JobCounts, base: &str) -> Markup {
    html! {
        dl.counts {
            div { dt { "Succeeded" } dd { a href={ (base) "/mini-batches?state=succeeded" } { (count(counts.succeeded)) } } }
            div.bad[counts.failed > 0] { dt { "Failed" } dd { a href={ (base) "/mini-batches?state=failed" } { (count(counts.failed)) } } }
            div { dt { "Items" } dd { (count(counts.items)) } }
            div.bad[counts.items_failed > 0] { dt { "Failed items" } dd { a href={ (base) "/failed-items" } { (count(counts.items_failed)) } } }
            div { dt { "Rows" } dd { (count(counts.rows)) } }
        }
    }
}

/// The first failure, and what to do.
fn causes(seen: &SeenJob) -> Markup {
    // A job that has not begun has no events.
    let advice = seen
        .job
        .began
        .map(|_| seen.look(|view| Ok(advice_lines(view.history(), &seen.report_paths()))));
    let first = seen.job.progress.first_failure.as_ref();
    html! {
        @if let Some(first) = first { (first_failure(first, &seen.base)) }
        @match &advice {
            Some(Ok(lines)) if !lines.is_empty() => {
                h2 { "What to do" }
                ul { @for line in lines { li { (message(line)) } } }
            }
            Some(Err(problem)) => { p.note { (message(problem.detail())) ": load the page again in some seconds." } }
            _ => {}
        }
        @if seen.job.began.is_some() {
            p { a href={ (seen.base) "/explain" } { "The whole explanation" } }
        }
    }
}

fn first_failure(first: &FirstFailureBody, base: &str) -> Markup {
    html! {
        h2 { "The first failure" }
        p {
            @match first.mini_batch {
                Some(number) => { a href={ (base) "/mini-batches/" (number) } { "Mini-batch " (number) } ": " }
                None => { "A worker could not start: " }
            }
            code { (name(&first.kind)) }
        }
        pre.error { (message(&first.message)) }
    }
}

/// The forms that change the job.
fn actions(seen: &SeenJob) -> Markup {
    let job = &seen.job;
    if !seen.frame.may_write() {
        return html! {};
    }
    let can_resume =
        matches!(job.phase, "paused" | "failed" | "cancelled") || job.wish == JobWish::Pause;
    html! {
        h2 { "Change the job" }
        div.actions {
            @if can_resume { (action(seen, "resume", "Resume", None)) }
            @if !job.has_ended && job.wish == JobWish::Run { (action(seen, "pause", "Pause", None)) }
            @if !job.has_ended {
                (action(seen, "cancel", "Cancel", Some("Cancel the job? It finishes its running mini-batches. What is committed is kept.")))
                (action(seen, "cancel-at-once", "Cancel at once", Some("Cancel the job, and end its running mini-batches?")))
                form method="post" action={ (seen.base) "/priority" } {
                    (seen.frame.secret_field())
                    label for="priority" { "Priority" }
                    input #priority name="priority" type="number" min="-100" max="100" value=[job.priority];
                    button { "Change" }
                }
            }
            @if !can_resume && job.has_ended { p { "The job is completed. Submit it again to run it again." } }
        }
    }
}

fn action(seen: &SeenJob, end: &str, label: &str, confirm: Option<&str>) -> Markup {
    html! {
        form method="post" action={ (seen.base) "/" (end) } data-confirm=[confirm] {
            (seen.frame.secret_field())
            button { (label) }
        }
    }
}

/// What does not change, or seldom.
fn about(job: &ShownJob) -> Markup {
    let text = |text: &String| html! { (name(text)) };
    let labels = html! {
        @for (key, value) in &job.labels { span.label { (name(key)) "=" (name(value)) } " " }
    };
    let component = job.component.as_ref().map(|digest| {
        html! { a href={ "/portal/components/" (digest) "?tenant=" (job.tenant) } { code { (digest.get(..16).unwrap_or(digest)) "…" } } }
    });
    html! {
        section #about {
            h2 { "About the job" }
            (facts(&[
                ("Id", job.id.as_ref().map(|id| html! { code { (id) } })),
                ("Tenant", (!job.tenant.is_empty()).then(|| html! { (name(&job.tenant)) })),
                ("Submitted", job.submitted.map(|at| time_or(Some(at), ""))),
                ("Submitted by", job.submitted_by.as_ref().map(text)),
                ("Began", job.began.map(|at| time_or(Some(at), ""))),
                ("Ended", job.ended.map(|at| time_or(Some(at), ""))),
                ("Component", component),
                ("Labels", (!job.labels.is_empty()).then_some(labels)),
            ]))
        }
    }
}

/// Explains what went wrong in a job or made it slow.
pub(super) async fn explain(seen: SeenJob) -> Result<Page, PageProblem> {
    blocking(move || {
        let paths = seen.report_paths();
        let text =
            seen.look(|view| Ok(explain_text(view.history(), &paths, seen.job.is_running)))?;
        let text = html! { pre { (sandmill_model::printable(&text)) } };
        Ok(seen.page(&format!("Explanation of {}", seen.job.name), "/explain", &text))
    })
    .await
}
