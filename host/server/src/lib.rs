//! A server that runs the jobs of many tenants, and its API over HTTP.
//!
//! The server queues jobs, starts a process for each of them, and shows what the jobs write into their directories. It
//! computes nothing itself. **A dead server stops no running job**: the processes are independent of it, and the next server
//! finds them.
//!
//! - `state`: what the server keeps: tenants, tokens, jobs, the audit; `folders`: the files beside it;
//! - `jobs`: starts and follows the processes of jobs, and reads what they write;
//! - `auth`: the secrets of callers, and how often they may call;
//! - `api`: the routes; `app`: what all requests share; `problem`: the answers to requests that fail;
//! - `uploads`: files that are being received;
//! - `portal`: pages for browsers, over the functions of `api`; also of one job, without a server;
//! - `router`: the routes of both; `serve`: the server as a whole.
//!
//! A stranger's job file and entry script are never parsed in the server's process. A process with a wall looks at the job file
//! when it is submitted; the process that then runs the job reads it, too, and has no wall. The workers' walls enclose the entry
//! script.

mod api;
mod app;
mod auth;
mod error;
mod folders;
mod jobs;
mod names;
mod options;
mod portal;
mod problem;
mod router;
mod serve;
mod state;
mod uploads;

pub use error::ServeError;
pub use folders::StateFolder;
pub use jobs::{LOOK_COMMAND, LookAnswer, LookQuestion};
pub use names::{JobId, TenantName};
pub use options::ServeOptions;
pub use portal::{PortalOptions, portal_routes, serve_job};
pub use problem::{JobFileError, ProblemBody};
pub use serve::{Listening, openapi_text, serve};
pub use state::WorkerNeeds;
