//! Groups rows by key with bounded memory, over any number of files.
//!
//! `run` is the planner's side. It gives pieces of the input to the processes of its `crew`, which first
//! perform `scatter` tasks: each row goes to one of a fixed number of buckets by the hash of its key, and
//! each piece becomes one file with a segment for each bucket. Then they perform `gather` tasks. These sort a
//! bucket's segments by key, and write the rows as groups with an `index`, which the planner merges by key.
//! Rows of one key stay in the order of the pieces. If a bucket has too many segments, sorted runs go to
//! disk, so that a group may be larger than memory. Ids therefore depend neither on the number of processes
//! nor on their speed. `serve` is a helper process, `message` has the messages to it, and `codec` is the
//! format of rows on disk. This module imports `dataset`, `protocol` and below.

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

pub(super) use crew::{Helper, Idle, start_processes};
pub(super) use message::ShuffleLimits;
pub(super) use run::{Shuffle, ShuffleContext, empty_spill};
#[cfg(test)]
pub(super) use serve::serve_on;
