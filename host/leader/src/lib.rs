//! The leader of a job: a pure state machine (`machine`), and the driver that connects it to the disk, the
//! clock and the node. A node is a computer that runs jobs. The leader reaches nodes only through the traits
//! in `nodes`, and does not parse the content of guests or input files.
//!
//! This crate uses `model`, `files`, `commit_log`, `wire` and `spec`. It contains no sandbox, no parser of inputs and no
//! TLS. Only `sandmill` and the fuzz targets use it.
//!
//! - `prepare` makes a job ready to run, and asks the node to find and check what the job needs.
//! - `claim` decides which job owns a job directory, and `reserve` reserves disk space to record
//!   the job's end.
//! - `job_store` connects a job to its commit log, from which another machine can continue the job.
//!   `stored_jobs` lists and removes the logs in a store, `orphans` finds jobs without a leader in it, `standby`
//!   waits for another machine, and `presence` shows other machines that a leader is alive. `published` removes
//!   copies of results that are published, and `leftovers` removes the working files of a completed job.
//! - `job_source` puts into the store what other machines need to run the job. `stored_rows` and `stored_spill` are
//!   objects that only a running job needs.
//! - `store_link` is what a running job does in its store for other machines: `shared_logs` copies its logs there, and
//!   `cancel_requests` reads requests to end it. `stored_view` is a job as other machines see it,
//!   and `stored_place` is a job store as commands see it.
//! - `resume` decides what to do with a job that was run before: `identity` lists its settings,
//!   `differences` compares them with those of the earlier run, and `verify` does the same for its
//!   inputs. These modules do not know how a node is built.
//!   `chosen_backends` are the libraries that machines choose for models.
//! - `settings_in_force` collects the settings that the state machine enforces.
//! - `driver` runs a `job`, with the parts that `start` starts. `intake` receives the plan, `commit` is the
//!   thread that commits what workers finished, and `control` is the thread that answers the job's owner.
//! - `stored_plan` is the plan in the job's store, from which another leader goes on.
//! - `spans` reports the job's events to `tracing`, and `receipt_reports` reports what the job has used so far.
//!   `receipts` reads the receipts of several jobs together.

#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "numbers of tests are small"
    )
)]

mod cancel_requests;
mod chosen_backends;
mod claim;
mod claim_error;
mod claim_folders;
mod commit;
mod control;
mod copied_logs;
mod differences;
mod driver;
mod folder_lock;
mod identity;
mod intake;
mod job;
mod job_source;
mod job_state;
mod job_store;
pub mod journal;
mod leftovers;
pub mod machine;
mod nodes;
mod options;
mod orphans;
mod parent;
mod peak;
mod prepare;
mod prepare_error;
mod presence;
mod published;
mod receipt_reports;
mod receipts;
mod reserve;
mod resume;
mod settings_in_force;
mod shared_logs;
mod spans;
mod standby;
mod start;
mod store_link;
mod stored_jobs;
mod stored_place;
mod stored_plan;
mod stored_rows;
mod stored_spill;
mod stored_view;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod verify;
mod view_error;

pub use cancel_requests::{CancelRequest, CancelRequests};
pub use chosen_backends::{backend_names, without_chosen_backends};
pub use claim::Claim;
pub use claim_error::ClaimError;
#[cfg(any(test, feature = "testing"))]
pub use commit::fuzz_recovery;
pub use commit::{Make, OutputFileError};
pub use copied_logs::{clear_copied_logs, copied_logs, copied_logs_folder};
pub use driver::run;
pub use folder_lock::{JobHold, is_locked};
pub use identity::settings;
pub use job::{PreparedJob, PreparedOnNode, Reused};
pub use job_source::{JobSource, SourceError, put_source};
pub use job_state::{JobFile, JobStanding, JobState, OutputSize, PolicyUsed, StartedBy};
pub use job_store::{folder_objects, worker_dir};
pub use nodes::{BeginRequest, JobOnNode, NodeHandle, RemoteWork, RunningNode, StartRequest};
pub use options::LeaderOptions;
pub use orphans::{OldRuns, OrphanedJob, SearchedStore, orphaned_jobs};
pub use prepare::{node_request, prepare};
pub use prepare_error::PreparationError;
pub use presence::show_successor;
pub use published::{DirToPublish, RunToPublish};
pub use receipts::each_receipt;
pub use sandmill_commit_log::{
    CreateObject, LogError, LogStore, OBJECT_BYTES, ObjectCutter, TrialError, create_own,
    is_run_id, remove_objects, try_folder, try_store,
};
pub use settings_in_force::RUNS_AS_ROOT;
pub use shared_logs::{LastWord, NodeLogs, write_node_logs};
pub use standby::wait_for_turn;
pub use start::make_worker_folders;
pub use stored_jobs::{StoredJob, stored_jobs};
pub use stored_place::StorePlace;
pub use stored_rows::STORED_ROWS;
pub use stored_spill::{spill_folder, spill_object};
pub use stored_view::StoredView;
pub use view_error::ViewError;

use sandmill_files::{self as files, opening};
use sandmill_model::{self as model, event, fail_point};
use sandmill_spec as spec;
use sandmill_wire::{self as protocol, cancel};

/// Why a job could not begin, or why its end could not be recorded. The text is a complete message
/// for users.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);
