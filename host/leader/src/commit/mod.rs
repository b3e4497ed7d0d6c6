//! Committing what workers finished: the thread that does it, and taking up what an earlier run left.
//! The order of its steps is the promise that no row and no file is lost or doubled: see `committer`.
//! Imports `journal`, `output` and below, never the rest of `engine`.
//!
//! | File | What |
//! |---|---|
//! | `message`, `target` | what is asked and answered; where results go |
//! | `store` | everything that is written to |
//! | `group` | one group, step by step; the job's end |
//! | `places` | where workers leave rows and files |
//! | `parts`, `rows` | part files; the output file, its order, its header line |
//! | `confirm`, `whole` | whether the output file holds what was committed: new rows; all |
//! | `finish`, `making`, `header` | the output file that is made at the end; what it begins with |
//! | `split` | an output of one file for each worker |
//! | `files`, `done` | files of mini-batches; files of `init` and `shutdown` |
//! | `recover`, `item`, `settle`, `settling`, `recover_files` | taking a job up |
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
mod item;
mod making;
mod message;
mod parts;
mod places;
mod queue;
mod recover;
mod recover_files;
mod replace;
mod rows;
mod settle;
mod settling;
mod split;
mod store;
mod target;
mod whole;

#[cfg(any(test, feature = "testing"))]
pub use committer::fuzzing::recovery as fuzz_recovery;
pub(super) use committer::{Committer, StillWriting, last_reply};
pub(super) use error::CommitError;
pub(super) use message::{CommitReply, CommitRequest, FinalFailure, Free, Success};
pub(super) use places::{Places, worker_of};
pub(super) use target::{CommitTarget, Finish};
pub use target::{Make, MakeError};
