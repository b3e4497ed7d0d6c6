//! The command line and the library, as users and their programs use them, and the files that a job leaves
//! for them.

mod cli;
mod embed;
mod explain;
mod guest_sdk;
mod job_dir;
mod jobs;
mod kit;
mod log_tree;
mod logging;
mod look;
mod map;
mod perf;
mod policy;
mod refusals;
mod registry;
mod terminal;
mod usage;
mod without;
