//! The log tree of a job: its files, the end of one of them, and what was added to it.

use super::frame::Page;
use super::link::Link;
use super::log_search::{Hits, search};
use super::page_problem::{PageProblem, blocking};
use super::seen::{PathParts, Query, SeenJob};
use super::table::table;
use super::text::{bytes, encoded_path, name, shortened};
use crate::api::{FileBody, list_below, open_below, send, start_of_tail};
use crate::problem::Problem;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use sandmill_model::printable;
use serde::Deserialize;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// The most files on a page.
const MOST_FILES: usize = 300;
/// The lines at the end of a file that are shown.
const LINES: u32 = 300;
/// The most bytes of a file that are shown.
const MOST_BYTES: u64 = 60_000;

/// What to show of the logs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct LogsAsked {
    /// Only files whose paths contain this text.
    file: Option<String>,
    /// Only lines that contain this text.
    q: Option<String>,
    /// Whether to download the file.
    download: Option<String>,
}

/// Opens a file of the log tree.
///
/// # Errors
/// If there is no such file.
pub(super) fn open_log(seen: &SeenJob, path: &str) -> Result<(File, u64), Problem> {
    open_below(&seen.dir.logs(), path)
}

/// Lists the files, or the lines in them that contain a text.
pub(super) async fn list(
    seen: SeenJob,
    Query(asked): Query<LogsAsked>,
) -> Result<Page, PageProblem> {
    seen.must_read_logs()?;
    blocking(move || {
        let wanted = asked.file.clone().unwrap_or_default();
        let text = asked.q.clone().unwrap_or_default();
        let files = list_below(&seen.dir.logs()).map_err(|error| Problem::internal(&error))?;
        let is_truncated = files.is_truncated;
        let files: Vec<FileBody> = files
            .items
            .into_iter()
            .filter(|file| file.bytes > 0 && file.path.contains(&wanted))
            .collect();
        let contents = html! {
            form.filter method="get" {
                label { "Files with " input name="file" value=(wanted); }
                label { "Lines with " input name="q" type="search" value=(text); }
                button { "Search" }
            }
            @if text.is_empty() {
                (file_table(&seen.base, &files))
                @if files.len() > MOST_FILES || is_truncated { p.note { "There are more files: filter them by their paths." } }
            } @else {
                (hits_shown(&seen.base, &search(&seen, &files, &text)))
            }
        };
        Ok(seen.page(&format!("Logs of {}", seen.job.name), "/logs", &contents))
    })
    .await
}

fn file_table(base: &str, files: &[FileBody]) -> Markup {
    html! {
        @if files.is_empty() {
            p { "There are no such files, or they are empty." }
        } @else {
            (table("Files", &["File", "Size"], &html! {
                @for file in files.iter().take(MOST_FILES) {
                    tr {
                        th scope="row" { a href={ (base) "/logs/" (encoded_path(&file.path)) } { (name(&file.path)) } }
                        td.number { (bytes(file.bytes)) }
                    }
                }
            }))
        }
    }
}

/// The lines that a search has found.
fn hits_shown(base: &str, hits: &Hits) -> Markup {
    html! {
        @if hits.lines.is_empty() { p { "No line has this text." } }
        @else {
            (table("Lines", &["File", "Line", "Text"], &html! {
                @for hit in &hits.lines {
                    tr {
                        th scope="row" { a href={ (base) "/logs/" (encoded_path(&hit.path)) } { (name(&hit.path)) } }
                        td.number { (hit.number) }
                        td { code { (hit.text) } }
                    }
                }
            }))
        }
        @if hits.has_more { p.note { "These are the first lines. The rest of the files was not searched." } }
    }
}

/// Shows the end of a file, or downloads it.
pub(super) async fn show(
    seen: SeenJob,
    parts: PathParts,
    Query(asked): Query<LogsAsked>,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    seen.must_read_logs()?;
    blocking(move || {
        let path = parts.get("path");
        let (mut file, length) = open_log(&seen, path)?;
        if asked.download.is_some() {
            let name = path.rsplit('/').next().unwrap_or(path);
            return send((file, length), &headers, name);
        }
        let text = asked.q.unwrap_or_default();
        let link = Link::new(format!("{}/logs/{}", seen.base, encoded_path(path)));
        let contents = html! {
            form.filter method="get" {
                label { "Lines with " input name="q" type="search" value=(text); }
                button { "Search" }
                a href=(link.address()) { "Load again" }
                a href=(link.with("download", Some(1)).address()) { "Download" }
            }
            @if text.is_empty() { (end_of(&seen, (&mut file, length), path)?) }
            @else {
                @let files = [FileBody { path: path.to_owned(), bytes: length }];
                (hits_shown(&seen.base, &search(&seen, &files, &text)))
            }
        };
        Ok(seen.page(path, "/logs", &contents).into_response())
    })
    .await
}

/// The last lines of a file. The script adds those that come.
fn end_of(seen: &SeenJob, (file, length): (&mut File, u64), path: &str) -> Result<Markup, Problem> {
    let failed = |error: std::io::Error| Problem::internal(&error);
    let tail = start_of_tail(file, length, LINES).map_err(failed)?;
    let from = tail.max(length.saturating_sub(MOST_BYTES));
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut read = Vec::new();
    file.take(length - from).read_to_end(&mut read).map_err(failed)?;
    // A part of a line is shown when the rest of it is there.
    let end = match read.iter().rposition(|byte| *byte == b'\n') {
        Some(last) if !seen.job.has_ended => last + 1,
        _ => read.len(),
    };
    let text = String::from_utf8_lossy(&read[..end]);
    let live = Link::new(format!("{}/live", seen.base))
        .with("log", Some(path))
        .with("from", Some(from + end as u64));
    let live = (!seen.job.has_ended).then(|| live.address());
    Ok(html! {
        @if from > 0 { p.note { "These are the last lines. Download the file to read the others." } }
        pre.log #log tabindex="0" data-live=[live] { @for line in printable(&text).split_inclusive('\n') { (shortened(line, 4000)) } }
    })
}
