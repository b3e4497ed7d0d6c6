//! The second wall: what a process gives up before it reads untrusted bytes. All of it is in this crate,
//! which knows nothing of jobs.
//!
//! This crate uses `model` and `landlock`. The crates whose processes read untrusted bytes may use it:
//! `data`, `store`, `guest` and `node`. `leader` and `report` may not.
//!
//! - `start`: the first steps of such a process; `fork`: forking one from another; `death`: how it ended, in
//!   words; `task`: waiting for a process that was started for one task.
//! - `role`: the kinds of processes behind a wall, and what they may use.
//! - `build`: the wall itself. Its layers are `landlock` (Landlock), `seccomp` with the lists in `syscalls`
//!   and the search tree in `bpf` (seccomp), `limits` (resource limits), and `capabilities` (capabilities).
//! - `layer`: whether this machine has the layers; `hidden`: those that tests hide; `error`: their names, and
//!   why one is missing, in words; `gpu`: what a leased GPU needs besides.
//! - `cgroup_leaf`: an optional cgroup for each worker; `cgroup`: whether this process may make any.
//!
//! The process applies everything to itself, on its main thread, before it has other threads: Landlock and
//! seccomp hold for a thread and those that it starts. A hook before exec would instead force a fork.

mod bpf;
mod build;
mod capabilities;
mod cgroup;
mod cgroup_leaf;
mod death;
mod error;
mod fork;
mod gpu;
mod hidden;
mod landlock;
mod layer;
mod limits;
mod role;
mod seccomp;
mod start;
mod syscalls;
mod task;

pub use build::Wall;
pub use cgroup::probe_cgroup;
pub use cgroup_leaf::{LeafQuota, Leaves, ProcessCgroup};
pub use death::death;
pub use error::{LayerError, WaitError, WallError, WallLayer};
pub use fork::{ForkedTwin, twin};
pub use gpu::gpu_folders;
pub use hidden::MISSING_LAYER;
pub use layer::{Layer, check, probe};
pub use role::{FolderRights, GrantedPath, ResourceLimits, WallRole};
pub use start::{alone, enter, keep_apart};
pub use task::{TaskEnd, end_of};
