//! The fetcher process, the only process of Sandmill that uses the network.
//!
//! - `serve`: the process itself: it runs in a sandbox and can write only to its folder;
//! - `open` opens the store;
//! - `list` finds objects and writes a manifest of them; `look` finds those that are named, and `tables`
//!   recognizes tables with a log;
//! - `bring` fetches objects on request, `fetch` fetches one object, `put` writes results to the store;
//! - `words` has the messages for what goes wrong in that process, without secrets.

mod bring;
mod fetch;
mod list;
mod look;
mod open;
mod proxy;
mod put;
mod serve;
mod tables;
mod words;

use super::{config, process, secrets, slot};

pub use serve::serve;
