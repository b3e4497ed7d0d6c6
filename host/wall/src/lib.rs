//! The process wall: the rights that a process gives up before it reads untrusted bytes. It is the second
//! wall; the first one is WebAssembly. This crate knows nothing of jobs.
//!
//! This crate uses `model` and `landlock`. The crates whose processes read untrusted bytes may use it:
//! `data`, `store`, `guest` and `node`. `leader` and `report` may not.
//!
//! - `start`: the first steps of such a process; `fork`: forking a worker from the zygote; `death`: describes
//!   how a process ended; `task`: waiting for a process that was started for one task.
//! - `role`: the kinds of processes behind a wall, and what they may use.
//! - `build`: the wall itself. Its layers are `landlock`, `seccomp`, `limits` (resource limits) and
//!   `capabilities`. `syscalls` has the lists of `seccomp`, and `bpf` makes its search tree.
//! - `layer`: whether this machine has the layers; `hidden`: layers that tests hide; `error`: the names of
//!   the layers, and why a layer is missing; `gpu`: the files and devices that a leased GPU needs.
//! - `cgroup_leaf`: an optional cgroup for each worker; `cgroup`: whether this process may make cgroups.
//!
//! The process applies the wall to itself, on its main thread, before it has other threads:
//! Landlock and seccomp hold for a thread and the threads that it starts. The parent does not apply
//! it in a hook before exec (`pre_exec`): with a hook, the standard library forks the whole parent,
//! and without one it uses the cheaper `posix_spawn`.

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
