//! The leader of a job: a pure state machine (`machine`) and the driver that joins it to the world. It knows no machine
//! that runs jobs but by what `nodes` asks of one, and looks into nothing that a guest or an input file contains.
//!
//! It uses `model`, `files`, `wire` and `spec`, and has no sandbox, parser of inputs or TLS in it; `sandmill` alone uses it.
//!
//! `prepare` makes a job ready to run, and asks the machine that it is to run on (`nodes`) for what it needs there; `claim`
//! decides who owns a job directory (`reserve` is room for its end) and `taking_up` what becomes of a job that was run
//! before: `identity` names its settings, `differences` compares them, `verify` its inputs. These do not know what a node
//! is made of.
//! `spans` tells `tracing` of the job's events.
//! `in_force` says what the machine holds a job to. `driver` runs a `job`, on what `start` starts; `intake` takes the
//! plan; `commit` is the thread that commits what workers finished, and `control` the one that answers the job's owner.

#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "numbers of tests are small"
    )
)]

mod claim;
mod claim_error;
mod commit;
mod control;
mod differences;
mod driver;
mod folder_lock;
mod identity;
mod in_force;
mod intake;
mod job;
mod job_state;
pub mod journal;
pub mod machine;
mod nodes;
mod options;
mod parent;
mod peak;
mod prepare;
mod prepare_error;
mod reserve;
mod spans;
mod start;
mod taking_up;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod verify;

pub use claim::Claim;
pub use claim_error::ClaimError;
#[cfg(any(test, feature = "testing"))]
pub use commit::fuzz_recovery;
pub use commit::{Make, MakeError};
pub use driver::run;
pub use folder_lock::{JobHold, is_locked};
pub use in_force::RUNS_AS_ROOT;
pub use job::{Job, Prepared, Reused};
pub use job_state::{JobFile, JobState, OutputSize, PolicyUsed, Standing, StartedBy};
pub use nodes::{JobOnNode, Node, RunningNode};
pub use options::LeaderOptions;
pub use prepare::prepare;
pub use prepare_error::PrepareError;

use sandmill_files::{self as files, opening};
use sandmill_model::{self as model, event, fail_point};
use sandmill_spec as spec;
use sandmill_wire::{self as protocol, cancel};

/// A job that could not be begun, or whose end could not be written down; for people, complete.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);
