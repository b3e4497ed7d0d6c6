//! Runs the jobs that tenants submit.
//!
//! - `keeper`: follows the processes of the jobs, with `queue`, which decides which job starts next, and `asking`;
//! - `process`: starts the process of a job, and finds out whether it runs;
//! - `outcome`: what became of a job whose process has ended;
//! - `looking`: reads a stranger's job file in a process of its own;
//! - `view`, `index`, `heat`: what a job's events say, for the API.

mod asking;
mod heat;
mod index;
mod keeper;
mod looking;
mod mini_batch_state;
mod outcome;
mod process;
mod queue;
mod view;
mod views;

pub(crate) use heat::{HeatCell, HeatMap};
pub(crate) use index::{AttemptRow, FailureGroupRow, MiniBatchRow, MiniBatchesAsked};
pub(crate) use keeper::{Keeper, KeeperHandle};
pub use looking::{LOOK_COMMAND, LookAnswer, LookQuestion};
pub(crate) use looking::{LookError, look};
pub(crate) use mini_batch_state::MiniBatchState;
pub(crate) use process::{JOB_FILE, JobProcesses, SETTINGS_FILE};
pub(crate) use queue::WhyWaiting;
pub(crate) use view::{JobView, ViewError};
pub(crate) use views::JobViews;
