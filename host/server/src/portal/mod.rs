//! The portal: pages for browsers, written by the server. A page works without scripts; one small script refreshes parts of it.
//!
//! The pages show what the API answers, through the same functions. Everything that a job, a guest or another tenant may have
//! written is hostile: `text` shows it, and maud escapes it.
//!
//! - `routes`: all pages, in one table; `guards`: the headers of all answers, and which hosts are served;
//! - `visitor`: finds the session of a request, and checks forms; `sign_in`: begins and ends sessions;
//! - `seen`: the job of a page, of the server or, with `one_job`, of a directory; `shown_job`: what pages say about it;
//! - `job`, `live`, `actions`, `mini_batches`, `heat`, `timeline`, `failures`, `workers`, `logs`, `log_search`, `outputs`, `preview`: the
//!   pages of a job;
//! - `jobs`, `submit`, `submit_form`, `components`, `tokens`, `audit`, `tenants`: the other pages;
//! - `frame`, `text`, `link`, `table`, `fields`, `page_problem`, `assets`: what pages are made of;
//! - `serve_job`: `sandmill portal`.

mod actions;
mod assets;
mod audit;
mod components;
mod failures;
mod fields;
mod frame;
mod guards;
mod heat;
mod job;
mod jobs;
mod link;
mod live;
mod log_search;
mod logs;
mod mini_batches;
mod one_job;
mod outputs;
mod page_problem;
mod preview;
mod routes;
mod seen;
mod serve_job;
mod shown_job;
mod sign_in;
mod submit;
mod submit_form;
mod table;
mod tenants;
mod text;
mod timeline;
mod tokens;
mod visitor;
mod workers;

pub use routes::portal_routes;
pub(crate) use routes::routes;
pub use serve_job::{PortalOptions, serve_job};
