//! The second wall: what a process that sees untrusted bytes gives up before it looks at them. The
//! one place for it. `limits` are resource limits, `start` is what such a process does first of all.
//! Knows nothing of jobs. Imports `model` only.
//!
//! Everything is applied by the process to itself, on its main thread, before any other thread exists:
//! Landlock and seccomp hold for a thread and those that it starts, and a hook before exec would force
//! a fork.

mod build;
mod limits;
mod start;

pub use build::{Bounds, Folder, Occupant, Rights, Wall, WallError};
pub use start::enter;
