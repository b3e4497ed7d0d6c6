//! Stores: copies objects of S3, Azure, Google and web servers to this machine, where the planner and the
//! workers read them like any other file. Also uploads results, and keeps commit logs.
//!
//! The fetcher process runs the same binary. Only this process uses the network, and it runs behind
//! a wall. This crate uses `model`, `commit-log`, `wire`, `wall`, `data` and `spec`. Its users are `node` and the
//! command line.
//!
//! - `error`: the errors in the leader, with their messages;
//! - `config`: turns an address into the settings that open its store, from the file of datastores or the
//!   environment;
//! - `cache_dir`: the cache folders that hold objects, called slots;
//! - `stager`: lists and fetches the objects of a job through fetcher processes;
//! - `objects`: the job's handle on its objects;
//! - `prefetch`: prefetches objects and evicts them, or fetches all objects; `fetch_all`: chooses
//!   the next object if all are fetched; `needed_objects` and `idle_objects`: the objects
//!   that requests need, and those that may be evicted; `fetch_queue`: a folder with its fetcher process;
//!   `process`: starts fetcher processes; `events`: the messages between the threads;
//! - `store_objects`: small objects of a store, for commit logs;
//! - `network`: the code of the fetcher process, in builds with the feature `stores`;
//! - `secrets`: removes secrets from what the fetcher process and the stores report.

#[cfg_attr(not(feature = "stores"), expect(dead_code, reason = "`network` uses it, too"))]
mod cache_dir;
mod config;
mod error;
mod events;
mod fetch_all;
mod fetch_queue;
mod idle_objects;
mod needed_objects;
#[cfg(feature = "stores")]
mod network;
mod objects;
mod prefetch;
mod process;
mod secrets;
mod stager;
mod store_objects;

pub use crate::protocol::store::{StoreErrorKind, UnfetchedObject};
pub use cache_dir::CachedObjects;
pub use error::StoreError;
pub use events::StagingReport;
#[cfg(feature = "stores")]
pub use network::serve;
pub use objects::JobObjects;
pub use process::FETCH_COMMAND;
pub use stager::{FetchTiming, KeptObjects, Stager, Watch};
pub use store_objects::StoreObjects;

/// The number of objects in a cache folder, and the sum of their lengths. A folder that does not
/// exist holds no objects.
///
/// # Errors
/// If the folder cannot be read.
pub fn held(cache: &std::path::Path) -> std::io::Result<CachedObjects> {
    cache_dir::held(cache)
}

/// Removes the objects that no job uses. Returns the amounts that were removed and that are left.
///
/// # Errors
/// If the folder cannot be read.
pub fn clear(cache: &std::path::Path) -> std::io::Result<(CachedObjects, CachedObjects)> {
    cache_dir::clear(cache)
}

/// Whether this build can use stores.
pub const HAS_STORES: bool = cfg!(feature = "stores");

use sandmill_data::dataset;
use sandmill_model as model;
use sandmill_spec as spec;
use sandmill_wall as wall;
use sandmill_wire as protocol;
