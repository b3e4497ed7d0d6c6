//! The parent side of child processes: spawns workers and the planner, sends them messages, kills and reaps
//! them. It imports `protocol`, `gpu`, `perf`, `wall`, `opening`, `inference` and `model`, never `worker`. It
//! makes no decisions.
//!
//! Everything here runs on the one thread of a current-thread tokio runtime, which must live as long as the
//! job: the kernel kills a worker when the *thread* that spawned it ends.
//!
//! [`Pool`] is the interface. `conversation` handles one worker, with the message queue in `outbox`;
//! `planner` handles the planner, with its `pipes`. `launch` makes a child process's command and folders,
//! `environment` its variables for a GPU. `confine` makes a worker's cgroup, and `error` says why there is
//! none. `zygote` handles the process from which the others are forked, `prestarted` starts it before there
//! is a pool, and `child` waits for a child process.

mod child;
mod confine;
mod conversation;
mod environment;
mod error;
mod event;
mod launch;
mod outbox;
mod pipes;
mod planner;
mod prestarted;
mod processes;
#[cfg(test)]
mod tests;
mod zygote;

pub use environment::gpu_environment;
pub use event::PoolEvent;
pub use launch::settle;
pub use prestarted::PrestartedProcesses;
pub use processes::Pool;
