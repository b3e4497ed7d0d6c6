//! Measures the resource use of the machine and of a job's processes, on a thread that sleeps nearly all the
//! time.
//!
//! - `monitor`: the thread, and its schedule;
//! - `watch`: finds workers that use more memory or threads than they may;
//! - `node`, `disks`, `gpus`: samples of the machine; `processes`: samples of the job's own processes, and
//!   lists of all processes; `machine`: a description of the machine, written once;
//! - `table`: the files to which samples are appended.
//!
//! Everything is read from `/proc`, `/sys` and NVIDIA's driver, without starting programs. A value that a
//! machine does not report is an empty field, never an error.
//!
//! Imports only `model` and `gpu`.

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
