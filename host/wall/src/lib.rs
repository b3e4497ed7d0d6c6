//! The second wall: what a process gives up before it reads untrusted bytes. All of it is in this crate,
//! which knows nothing of jobs.
//!
//! This crate uses `model` and `files`. The crates whose processes read untrusted bytes may use it: `data`,
//! `store`, `guest` and `node`. `leader` and `report` may not.
//!
//! - `start`: the first steps of such a process; `twin`: forking one from another; `death`: how it ended, in
//!   words; `task`: waiting for a process that was started for one task.
//! - `occupant`: the kinds of processes behind a wall, and what they may use.
//! - `build`: the wall itself. Its layers are `files` (Landlock), `filter` with the lists in `calls` and the
//!   search tree in `tree` (seccomp), `limits` (resource limits), and `powers` (capabilities).
//! - `layer`: whether this machine has the layers; `hidden`: those that tests hide; `error`: their names, and
//!   why one is missing, in words; `gpu`: what a leased GPU needs besides.
//! - `leaf`: an optional cgroup for each worker; `cgroup`: whether this process may make any.
//!
//! The process applies everything to itself, on its main thread, before it has other threads: Landlock and
//! seccomp hold for a thread and those that it starts. A hook before exec would instead force a fork.

mod build;
mod calls;
mod cgroup;
mod death;
mod error;
mod files;
mod filter;
mod gpu;
mod hidden;
mod layer;
mod leaf;
mod limits;
mod occupant;
mod powers;
mod start;
mod task;
mod tree;
mod twin;

pub use build::Wall;
pub use cgroup::probe_cgroup;
pub use death::death;
pub use error::{LayerError, WaitError, WallError, WallLayer};
pub use gpu::gpu_folders;
pub use hidden::MISSING_LAYER;
pub use layer::{Layer, check, probe};
pub use leaf::{Leaf, LeafQuota, Leaves};
pub use occupant::{GrantedPath, ResourceLimits, Rights, WallRole};
pub use start::{alone, enter, keep_apart};
pub use task::{TaskEnd, end_of};
pub use twin::{ForkedTwin, twin};
