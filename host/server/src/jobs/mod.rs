//! Runs the jobs that tenants submit.
//!
//! - `keeper`: decides which job starts next, and follows the processes of the jobs;
//! - `process`: starts the process of a job, and finds out whether it runs;
//! - `outcome`: what became of a job whose process has ended;
//! - `looking`: reads a stranger's job file in a process of its own;
//! - `view`, `index`: what a job's events say, for the API.

mod index;
mod keeper;
mod looking;
mod outcome;
mod process;
mod view;
mod views;

pub(crate) use index::{
    AttemptRow, FailureGroupRow, MiniBatchRow, MiniBatchState, MiniBatchesAsked,
};
pub(crate) use keeper::{Keeper, KeeperHandle, WhyWaiting};
pub(crate) use looking::look;
pub use looking::{LOOK_COMMAND, LookAnswer, LookQuestion};
pub(crate) use process::{JOB_FILE, JobProcesses, SETTINGS_FILE};
pub(crate) use view::{JobView, ViewError};
pub(crate) use views::JobViews;
