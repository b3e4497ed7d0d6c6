//! The API over HTTP, below `/v1`.
//!
//! - `caller`: finds the token of a request; `extract`: reads the other parts of it; `paging`: lists in pages;
//! - `jobs`, `submit` (with `submit_body` and `submit_form`), `actions`: jobs; `inside`, `failed_items`: what happens inside a job; `events`: its progress as it changes;
//! - `logs`, `outputs`, `files`: the files of a job; `receipts`: what jobs and tenants have used;
//! - `components`: uploaded entry scripts; `tenants`, `tokens`, `audit`: for operators and owners;
//! - `health`: whether the server works, and its figures; `router`: all of them together.
//!
//! The portal shows the same through the same functions.

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

pub(crate) use actions::{JobAction, act};
pub(crate) use audit::listed_audit;
pub(crate) use caller::Caller;
pub(crate) use components::{ComponentsAsked, found_component, listed_components};
pub(crate) use events::{INTERVAL, event_stream};
pub(crate) use failed_items::{FailedItemBody, listed_failed_items};
pub(crate) use files::{FileBody, FilesBody, list_below, open_below, send};
pub(crate) use inside::{WorkerBody, live_workers, report_paths};
pub(crate) use job_body::{FirstFailureBody, JobBody, ProgressBody};
pub(crate) use jobs::{
    JobsAsked, listed_jobs, no_view, progress_of, shown_job, viewed, visible_job,
};
pub(crate) use logs::start_of_tail;
pub(crate) use outputs::output_folder_of;
pub(crate) use paging::{Page, PageAsked};
pub(crate) use router::{openapi, routes};
pub(crate) use submit::{check_job, may_submit, submit};
pub(crate) use submit_body::SubmitBody;
pub(crate) use submit_form::{text as form_text, upload as form_upload, wrong as wrong_form};
pub(crate) use tenants::{
    NewTenantBody, QuotaBody, TenantBody, added_tenant, changed_quota, listed_tenants,
    visible_tenant,
};
pub(crate) use tokens::{NewTokenBody, TokenBody, TokensAsked, listed_tokens, made_token, revoke};
