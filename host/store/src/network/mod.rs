//! The process that fetches, the only one of Sandmill's that uses the network.
//!
//! - `serve`: that process: behind a wall, with nothing to write to but its folder;
//! - `open` opens the store, `list` finds objects, by way of `look` those that are named, and puts stand-ins in their
//!   places or writes a manifest (`tables` tells what is more than its files), `bring` fetches what these tell of,
//!   `fetch` one of them, `put` takes results there;
//! - `words` says what went wrong in that process, without secrets.

mod bring;
mod fetch;
mod list;
mod look;
mod open;
mod put;
mod serve;
mod tables;
mod words;

use super::{config, error, process, secrets, slot, target};

pub use serve::serve;
