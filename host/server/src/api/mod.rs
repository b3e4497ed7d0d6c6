//! The API over HTTP, below `/v1`.
//!
//! - `caller`: finds the token of a request; `extract`: reads the other parts of it; `paging`: lists in pages;
//! - `jobs`, `submit` (with `submit_body` and `submit_form`), `actions`: jobs; `inside`, `failed_items`: what happens inside a job; `events`: its progress as it changes;
//! - `logs`, `outputs`, `files`: the files of a job; `receipts`: what jobs and tenants have used;
//! - `components`: uploaded entry scripts; `tenants`, `tokens`, `audit`: for operators and owners;
//! - `health`: whether the server works, and its figures; `router`: all of them together.

mod actions;
mod audit;
mod caller;
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
mod receipts;
mod router;
mod router_limits;
mod submit;
mod submit_body;
mod submit_form;
mod tenants;
mod tokens;

pub(crate) use router::{openapi, router};
