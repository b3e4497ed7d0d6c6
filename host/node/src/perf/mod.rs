//! What the machine and a job's processes use, from a thread of its own that sleeps nearly always.
//!
//! - `monitor`: the thread: when what is looked at;
//! - `watch`: workers that hold more memory than they may;
//! - `node`, `disks`, `gpus`: samples of the machine; `processes`: of the job's own processes and
//!   of all others; `machine`: what the machine is, once;
//! - `table`: the files that samples are appended to.
//!
//! All of it is read from `/proc` and `/sys`, and of NVIDIA's GPUs from their driver, by this process
//! itself: nothing is started for it.
//! Whatever a machine does not tell is an empty field, never an error.
//!
//! Imports `model` and `gpu` only.

mod disks;
mod gpus;
mod machine;
mod monitor;
mod node;
mod processes;
mod table;
mod watch;

pub use monitor::{Monitor, MonitorOptions, PerfEvent};
pub use watch::memory_kills;
