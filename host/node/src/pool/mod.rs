//! The parent side of child processes: it spawns workers and the planner, sends them messages, kills and
//! reaps them. It imports `protocol`, `gpu`, `perf`, `wall`, `opening`, `inference` and `model`, never
//! `worker`. It makes no decisions.
//! Everything here runs on the one thread of a current-thread tokio runtime, which must live as long as the
//! job: the kernel kills a worker when the *thread* that spawned it ends.
//!
//! [`Pool`] is the interface. `conversation` handles one worker, `planner` the planner. `launch` makes a
//! child process's command and folders, `environment` its variables for a GPU. `confine` chooses a worker's
//! cgroup, and `error` says why it has none. `zygote` is the process from which others are forked,
//! `prestarted` starts it before there is a pool, `child` waits for a child process; `pipes` are a planner's.

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
