//! Committing what workers finished: the thread that does it, and taking up what an earlier run left.
//! The order of its steps is the promise that no row and no file is lost or doubled: see `committer`.
//! Imports `journal`, `output` and below, never the rest of `engine`.
//!
//! | File | What |
//! |---|---|
//! | `group` | one group, step by step; the job's end |
//! | `places` | where workers leave rows and files |
//! | `parts`, `rows` | part files; the output file, its order, its header line |
//! | `confirm` | whether the output file holds what was committed |
//! | `finish`, `header` | the output file that is made at the end; what it begins with |
//! | `split` | an output of one file for each worker |
//! | `files`, `done` | files of mini-batches; files of `init` and `shutdown` |
//! | `recover`, `settle`, `recover_files` | taking a job up |
//! | `replace`, `disk` | new files for old ones; the disk |
//! | `error` | what can go wrong, and its words |

mod committer;
mod confirm;
mod disk;
mod done;
mod error;
mod files;
mod finish;
mod group;
mod header;
mod parts;
mod places;
mod queue;
mod recover;
mod recover_files;
mod replace;
mod rows;
mod settle;
mod split;

#[cfg(any(test, fuzzing))]
pub use committer::fuzzing::recovery as fuzz_recovery;
pub(super) use committer::{
    CommitReply, CommitRequest, CommitTarget, Committer, FinalFailure, Finish, Free, StillWriting,
    Success, last_reply,
};
pub(super) use error::CommitError;
pub(super) use places::{Places, worker_of};
