//! Commits what workers finished, on a separate thread, and restores the results of a job that
//! resumes. The order of the steps guarantees that no row and no file is lost or duplicated: see
//! `committer`. From the rest of this crate, this folder imports only `journal`.
//!
//! | File | Content |
//! |---|---|
//! | `message`, `target` | requests and replies; where results go |
//! | `store` | everything that the committer writes to |
//! | `successor` | another process that waits to lead the job |
//! | `group` | committing one group, step by step; the job's end |
//! | `worker_folders` | where workers leave rows and files |
//! | `worker_parts`, `rows` | part files; the output file, its order and its header |
//! | `confirm`, `whole_output` | checking the output file: new rows; all rows |
//! | `converted_output`, `output_files`, `header` | the output file that is made at the end; its header |
//! | `parts_output` | an output of one file for each worker |
//! | `files`, `lifecycle_files` | files of mini-batches; files of `init` and `shutdown` |
//! | `recover`, `item`, `settle`, `settling`, `recover_files` | resuming a job |
//! | `saved`, `restore` | copies of results in the job's store; making results again from them |
//! | `replace`, `disk` | replacing files atomically; disk operations |
//! | `error` | errors and their texts |

mod committer;
mod confirm;
mod converted_output;
mod disk;
mod error;
mod files;
mod group;
mod header;
mod item;
mod lifecycle_files;
mod lost_files;
mod message;
mod output_files;
mod parts_output;
mod queue;
mod recover;
mod recover_files;
mod replace;
mod restore;
mod rows;
mod saved;
mod settle;
mod settling;
mod store;
mod successor;
mod target;
mod whole_output;
mod worker_folders;
mod worker_parts;

#[cfg(any(test, feature = "testing"))]
pub use committer::fuzzing::recovery as fuzz_recovery;
pub(super) use committer::{Committer, StillWriting, last_reply};
pub(super) use error::CommitError;
pub(super) use lost_files::note_unpublished;
pub(super) use message::{CommitReply, CommitRequest, FinalFailure, ReclaimableAttempt, Success};
pub(super) use saved::SavedResults;
pub(super) use target::{CommitTarget, OutputConversion};
pub use target::{Make, OutputFileError};
pub(super) use worker_folders::{WorkerFolders, worker_of};
