//! The fetcher process, the only process of Sandmill that uses the network.
//!
//! - `serve`: the process itself: it runs in a sandbox, and can write only to its folders in the cache;
//! - `open` opens the store;
//! - `listing` finds objects and writes a manifest of them; `head` finds objects by name, and `tables`
//!   recognizes tables with a transaction log;
//! - `download_all` fetches objects on request, `download` fetches one object, `upload` writes results to the
//!   store; `object_calls` creates and reads small objects on request;
//! - `error_text` has the messages for errors of this process, without secrets; `proxy` adds a hint if the
//!   answer may be a proxy's.

mod download;
mod download_all;
mod error_text;
mod head;
mod listing;
mod object_calls;
mod open;
mod proxy;
mod put_files;
#[cfg(test)]
mod put_files_tests;
mod serve;
mod tables;
mod upload;

use super::{cache_dir, config, process, secrets};

pub use serve::serve;
