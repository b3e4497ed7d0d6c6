//! Stores: how objects of S3, Azure, Google and the web come to lie on this machine, where planner and
//! workers read them as any file. Imports `dataset`, `spec`, `protocol`, `wall` and below.
//!
//! - `config`: from an address to what opens its store, with what the file of datastores or the
//!   environment has; `message`: what is said to the process that fetches, and what it says;
//! - `slot`: the folders that objects lie in; `stager`: who fills them for a job, by way of that process;
//! - `serve`: that process, the only one of Sandmill's that uses the network: behind a wall, with nothing to
//!   write to but its folder. `open` opens the store, `list` finds objects, `fetch` brings one, `put` takes results there; `words` says
//!   what went wrong, without secrets.

mod config;
mod fetch;
mod list;
mod message;
mod open;
mod put;
mod serve;
mod slot;
mod stager;
mod words;

pub use serve::{FETCH_COMMAND, serve};
pub use slot::Slot;
pub use stager::{Stager, StoreError};
