//! The commit log of a job: numbered objects in a store that several machines can reach. What the log holds
//! counts; nothing else does.
//!
//! A leader appends record n by creating an object whose name contains n, and only if no object of this name
//! exists. So the log is also the fence between leaders: if another leader has appended record n, this
//! leader's append fails, and it must end. No clock, lock or lease takes part in that decision.
//!
//! - [`LogStore`] is what the log needs of a store, and [`FolderStore`] is a folder, which may be shared;
//! - [`CommitLog`] appends records and writes snapshots;
//! - [`try_folder`] tries whether a folder can be such a store, and [`try_store`] tries another store;
//! - [`StoreBelow`] is one folder of a store, such as that of one job;
//! - [`ObjectCutter`] cuts long contents into objects;
//! - [`JobLogs`] finds and begins the logs of a job: each run that starts over has a log of its own;
//! - [`RecordSeries`] are records beside the log of a run, which decide nothing.
//!
//! The payloads of records are bytes that this crate does not interpret.

#![cfg_attr(test, expect(clippy::cast_possible_truncation, reason = "numbers of tests are small"))]

mod below;
mod commit_log;
mod error;
mod folder_store;
mod job_logs;
mod log_store;
mod object_cutter;
mod own_object;
mod record;
mod series;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod take_over_model;
mod trial;

pub use below::{StoreBelow, remove_objects};
pub use commit_log::{CommitLog, Replay};
pub use error::LogError;
pub use folder_store::FolderStore;
pub use job_logs::{JobLogs, RunList, RunLog, is_run_id};
pub use log_store::{LogStore, too_long};
pub use object_cutter::{CreateObject, OBJECT_BYTES, ObjectCutter};
pub use own_object::create_own;
pub use record::{LogPosition, Record, RecordDamage, Writer};
pub use series::RecordSeries;
pub use trial::{TrialError, try_folder, try_store};

use sandmill_files as files;
