//! The API over HTTP, below `/v1`.
//!
//! - `problem`: the answers to requests that fail; `extract`: reads the parts of a request; `paging`: lists in pages;
//! - `jobs`, `submit`, `actions`: jobs; `inside`, `failed_items`: what happens inside a job; `events`: its progress as it changes;
//! - `logs`, `outputs`, `files`: the files of a job;
//! - `components`: uploaded entry scripts; `tenants`, `tokens`, `audit`: for operators and owners;
//! - `health`: whether the server works, and its figures; `router`: all of them together.

mod actions;
mod audit;
mod components;
mod events;
mod extract;
mod failed_items;
mod files;
mod health;
mod inside;
mod job_body;
mod jobs;
mod logs;
mod outputs;
mod paging;
mod problem;
mod router;
mod submit;
mod submit_form;
mod tenants;
mod tokens;

pub use problem::JobFileError;
pub(crate) use problem::Problem;
pub(crate) use router::{openapi, router};

/// Runs work that waits for files or the database on a thread where it may wait.
///
/// # Errors
/// Those of the work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Problem::internal(&error)),
    }
}
