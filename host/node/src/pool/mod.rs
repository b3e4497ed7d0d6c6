//! The parent side of child processes: spawn workers and the planner, feed, kill, reap. Imports
//! `protocol`, `perf`, `wall` and `model`, never `worker`. Decides nothing.
//!
//! Everything here runs on the one thread of a current-thread tokio runtime, which must live as
//! long as the job: a worker asks to be killed when the *thread* that spawned it ends.
//!
//! [`Pool`] is the door; `conversation` is one worker's life, `planner` the planner's, `launch`
//! says what a child process is given, `environment` what for a GPU, `confine` which cgroup a worker gets, `error` why
//! it gets none;
//! `nursery` is the process that others are forked from, `standby` the same before there is a pool, `child` one to wait
//! for; `pipes` are a planner's.

mod child;
mod confine;
mod conversation;
mod environment;
mod error;
mod event;
mod launch;
mod nursery;
mod outbox;
mod pipes;
mod planner;
mod processes;
mod standby;
#[cfg(test)]
mod tests;

pub use environment::gpu_environment;
pub use event::PoolEvent;
pub use launch::settle;
pub use processes::Pool;
pub use standby::Standby;
