//! The commands on a server (`sandmill --server URL`): they send requests to `sandmill serve`.
//!
//! - `client`: sends requests, and turns problems into messages; `profile`: finds the server and the token;
//! - `submit`, `jobs`, `logs`, `usage`: the commands.

mod client;
mod jobs;
mod logs;
mod profile;
mod submit;
mod usage;

pub(super) use jobs::{cancel, explain, list, pause, refuse_options, resume, status};
pub(super) use logs::logs;
pub(super) use profile::ServerArgument;
pub(super) use submit::{SubmitArguments, submit};
pub(super) use usage::usage;
