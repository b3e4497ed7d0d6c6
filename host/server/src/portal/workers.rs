//! The live workers of a job.

use super::frame::Page;
use super::page_problem::{PageProblem, blocking};
use super::seen::SeenJob;
use super::table::table;
use super::text::{aged, name};
use crate::api::{WorkerBody, live_workers};
use crate::names::now;
use jiff::Timestamp;
use maud::{Markup, html};

/// Lists the workers.
pub(super) async fn list(seen: SeenJob) -> Result<Page, PageProblem> {
    blocking(move || {
        let workers = match seen.job.is_running {
            true => seen.look(|view| Ok(live_workers(view)))?,
            false => Vec::new(),
        };
        let now = now();
        let contents = html! {
            @if let Some(word) = seen.job.progress.last_word.filter(|_| seen.job.is_running) {
                p { "The job's last word: " (aged(word, now)) "." }
            }
            @if workers.is_empty() {
                p { @if seen.job.is_running { "No worker runs yet." } @else { "The job does not run, so it has no workers." } }
            } @else {
                (table("Workers", &["Worker", "What it does", "Mini-batch", "Last word", "GPU"], &html! {
                    @for worker in &workers { (row(worker, &seen.base, now)) }
                }))
            }
        };
        Ok(seen.page(&format!("Workers of {}", seen.job.name), "/workers", &contents))
    })
    .await
}

fn row(worker: &WorkerBody, base: &str, now: Timestamp) -> Markup {
    html! {
        tr {
            th scope="row" { (name(&worker.name)) }
            td { (worker.doing) }
            td {
                @if let Some(number) = worker.mini_batch {
                    a href={ (base) "/mini-batches/" (number) } { (number) }
                    @if let Some(attempt) = worker.attempt { ", attempt " (attempt) }
                }
            }
            td { (aged(worker.since, now)) }
            td.number { @if let Some(gpu) = worker.gpu_index { (gpu) } }
        }
    }
}
