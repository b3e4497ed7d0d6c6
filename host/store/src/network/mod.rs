//! The process that fetches, the only one of Sandmill's that uses the network.
//!
//! - `serve`: that process: behind a wall, with nothing to write to but its folder;
//! - `open` opens the store, `list` finds objects, by way of `look` those that are named, and writes a manifest of them
//!   (`tables` tells what is more than its files), `bring` fetches what is asked for, `fetch` one of them, `put` takes
//!   results there;
//! - `words` says what went wrong in that process, without secrets.

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
