//! Stores: how objects of S3, Azure, Google and the web come to lie on this machine, where planner and
//! workers read them as any file.
//!
//! It uses `model`, `wire`, `wall`, `data` and `spec`; `node` may use it, and the command line, whose child it is.
//!
//! - `error`: what can go wrong, as the leader sees it, with the words for it;
//! - `config`: from an address to what opens its store, with what the file of datastores or the
//!   environment has;
//! - `slot`: the folders that objects lie in; `stager`: who has them filled for a job, `objects`: what the job
//!   holds of them, `ahead`: who fetches before it is needed and makes room, or fetches `all`, in a `place` by way of a
//!   `process`; `events` are what these tell each other;
//! - `network`: that process, in builds with the feature `stores`;
//! - `secrets`: what is not told of what it and stores say.

mod ahead;
mod all;
mod config;
mod error;
mod events;
#[cfg(feature = "stores")]
mod network;
mod objects;
mod place;
mod process;
mod secrets;
#[cfg_attr(not(feature = "stores"), expect(dead_code, reason = "`network` uses it, too"))]
mod slot;
mod stager;

pub use crate::protocol::store::StoreErrorKind;
pub use error::StoreError;
pub use events::Arrival;
#[cfg(feature = "stores")]
pub use network::serve;
pub use objects::Objects;
pub use process::FETCH_COMMAND;
pub use slot::Held;
pub use stager::{Coming, Kept, Stager, Watch};

/// The objects in a cache's folder. A folder that does not exist holds none.
///
/// # Errors
/// If the folder cannot be read.
pub fn held(cache: &std::path::Path) -> std::io::Result<Held> {
    slot::held(cache)
}

/// Removes the objects that no job uses. Returns what was removed, and what is left.
///
/// # Errors
/// If the folder cannot be read.
pub fn clear(cache: &std::path::Path) -> std::io::Result<(Held, Held)> {
    slot::clear(cache)
}

/// Whether this build can use stores.
pub const HAS_STORES: bool = cfg!(feature = "stores");

use sandmill_data::dataset;
use sandmill_model as model;
use sandmill_spec as spec;
use sandmill_wall as wall;
use sandmill_wire as protocol;
