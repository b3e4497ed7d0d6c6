//! Stores: how objects of S3, Azure, Google and the web come to lie on this machine, where planner and
//! workers read them as any file. Imports `dataset`, `spec`, `protocol`, `wall` and below.
//!
//! - `error`: what can go wrong, as the leader sees it, with the words for it;
//! - `config`: from an address to what opens its store, with what the file of datastores or the
//!   environment has;
//! - `slot`: the folders that objects lie in; `stager`: who has them filled for a job, `objects`: what the job
//!   holds of them, `ahead`: who fetches before it is needed and makes room, or fetches `all`, in a `place` by way of a
//!   `process`; `events` are what these tell each other;
//! - `serve`: that process, the only one of Sandmill's that uses the network: behind a wall, with nothing to
//!   write to but its folder. `open` opens the store, `list` finds objects, by way of `look` those that are named,
//!   and writes a manifest of them (`tables` tells what is more than its files), `bring` fetches what is asked for, `fetch`
//!   one of them, `put` takes results there; `words` says what went wrong in that process, without secrets.

mod ahead;
mod all;
mod bring;
mod config;
mod error;
mod events;
mod fetch;
mod list;
mod look;
mod objects;
mod open;
mod place;
mod process;
mod put;
mod serve;
mod slot;
mod stager;
mod tables;
mod words;

pub use crate::protocol::store::StoreErrorKind;
pub use error::StoreError;
pub use events::Arrival;
pub use objects::Objects;
pub use serve::{FETCH_COMMAND, serve};
pub use stager::{Coming, Kept, Stager, Watch};

use sandmill_data::dataset;
use sandmill_model as model;
use sandmill_spec as spec;
use sandmill_wall as wall;
use sandmill_wire as protocol;
