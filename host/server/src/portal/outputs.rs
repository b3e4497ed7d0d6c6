//! The results of a job: its files, and the first rows of one of them.

use super::frame::Page;
use super::link::Link;
use super::page_problem::{PageProblem, blocking};
use super::preview::{ROWS, preview};
use super::seen::{PathParts, Query, SeenJob};
use super::table::table;
use super::text::{bytes, encoded_path, name};
use crate::api::{FilesBody, list_below, open_below, send};
use crate::problem::Problem;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;

/// The most files on a page.
const MOST_FILES: usize = 300;

/// Which files to list, and what to do with one.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct OutputsAsked {
    /// Only files whose paths contain this text.
    file: Option<String>,
    /// Whether to download the file.
    download: Option<String>,
}

/// Lists the files.
pub(super) async fn list(
    seen: SeenJob,
    Query(asked): Query<OutputsAsked>,
) -> Result<Page, PageProblem> {
    blocking(move || {
        let wanted = asked.file.unwrap_or_default();
        let folder = seen.output_folder();
        let found = folder.map_or_else(|| Ok(FilesBody::default()), |folder| list_below(&folder));
        let found = found.map_err(|error| Problem::internal(&error))?;
        let files: Vec<_> = found.items.iter().filter(|file| file.path.contains(&wanted)).collect();
        let contents = html! {
            @if found.items.len() > 1 {
                form.filter method="get" {
                    label { "Files with " input name="file" value=(wanted); }
                    button { "Filter" }
                }
            }
            @if files.is_empty() {
                p { "There are no files here. A job that has just begun has none, and the results of some jobs go to a store." }
            } @else {
                (table("Files", &["File", "Size", "Download"], &html! {
                    @for file in files.iter().take(MOST_FILES) {
                        @let link = Link::new(format!("{}/outputs/{}", seen.base, encoded_path(&file.path)));
                        tr {
                            th scope="row" { a href=(link.address()) { (name(&file.path)) } }
                            td.number { (bytes(file.bytes)) }
                            td { a href=(link.with("download", Some(1)).address()) { "Download" } }
                        }
                    }
                }))
            }
            @if files.len() > MOST_FILES || found.is_truncated { p.note { "There are more files: filter them by their paths." } }
            @if !seen.job.has_ended { p.note { "Rows of a job that runs may be missing." } }
        };
        Ok(seen.page(&format!("Outputs of {}", seen.job.name), "/outputs", &contents))
    })
    .await
}

/// Shows the first rows of a file, or downloads it.
pub(super) async fn show(
    seen: SeenJob,
    parts: PathParts,
    Query(asked): Query<OutputsAsked>,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    blocking(move || {
        let path = parts.get("path");
        let folder = seen.output_folder().ok_or_else(|| Problem::not_found("file"))?;
        let (file, length) = open_below(&folder, path)?;
        if asked.download.is_some() {
            let name = path.rsplit('/').next().unwrap_or(path);
            return send((file, length), &headers, name);
        }
        let link = Link::new(format!("{}/outputs/{}", seen.base, encoded_path(path)));
        let shown = preview(path, file).map_err(|error| Problem::internal(&error))?;
        let contents = html! {
            p { (bytes(length)) ". " a href=(link.with("download", Some(1)).address()) { "Download" } }
            h2 { "The first rows (at most " (ROWS) ")" }
            (shown)
        };
        Ok(seen.page(path, "/outputs", &contents).into_response())
    })
    .await
}
