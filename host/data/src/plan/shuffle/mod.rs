//! Rows grouped by key, however many files they are spread over, with bounded memory.
//!
//! `run` is the planner's side. It hands pieces of the input to the processes of its `crew`, which do
//! the work of `scatter`: each row goes to one of a fixed number of buckets by the hash of its key, and
//! each piece becomes one file with a segment for each bucket. Then the crew does that of `gather`: a
//! bucket's segments are sorted by key in the order of the pieces (with sorted runs on disk where they
//! are too many, so that a group may be larger than memory) and written as groups with an `index`, which
//! the planner merges by key. So ids depend neither on the number of processes nor on who was faster.
//! `serve` is such a process, `message` what it is told, `codec` how rows lie on disk. Imports
//! `dataset`, `protocol` and below.

mod codec;
mod crew;
mod gather;
mod index;
mod message;
mod run;
mod runs;
mod scatter;
mod serve;

pub use serve::{SHUFFLE_COMMAND, serve};

pub(super) use crew::{Hand, Idle, start_processes};
pub(super) use message::Bounds;
pub(super) use run::{Shuffle, Tools, empty_spill};
#[cfg(test)]
pub(super) use serve::serve_on;
