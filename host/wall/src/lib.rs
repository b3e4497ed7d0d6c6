//! The second wall: what a process that sees untrusted bytes gives up before it looks at them. The
//! one place for it. It knows nothing of jobs.
//!
//! It uses `model` and `files`; the crates whose processes look into untrusted bytes may use it: `data`, `store`, `guest`
//! and `node`. `leader` and `report` may not.
//!
//! - `start`: what such a process does first of all; `twin`: one that is forked from another; `death`: how
//!   it ended, in words; `task`: waiting for one that was started for one task.
//! - `occupant`: who is behind a wall, and what it may use.
//! - `build`: the wall itself, of layers: `files` (Landlock), `filter` with the tables of `calls` and the
//!   search `tree` over them (seccomp), `limits` (resource limits), `powers` (capabilities).
//! - `layer`: whether this machine has them; `hidden`: those that tests want missing; `error`: their names, and why one
//!   is missing, in words; `gpu`: what a leased GPU needs besides.
//! - `leaf`: what may stand beside them, a cgroup for each worker; `cgroup`: whether this process may make
//!   any.
//!
//! Everything is applied by the process to itself, on its main thread, before any other thread exists:
//! Landlock and seccomp hold for a thread and those that it starts, and a hook before exec would force
//! a fork.

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
pub use leaf::{Leaf, Leaves, Quota};
pub use occupant::{Bounds, Folder, Occupant, Rights};
pub use start::{alone, enter, keep_apart};
pub use task::{Ended, end_of};
pub use twin::{Twin, twin};
