//! Groups rows by key with bounded memory, over any number of files.
//!
//! `run` is the planner's side. It gives tasks to helper processes, its `crew`:
//!
//! 1. A `scatter` task reads a piece of the input. It puts each row into one of a fixed number of buckets,
//!    by the hash of the row's key. It writes one file, with a segment for each bucket.
//! 2. A `gather` task sorts all segments of a bucket by key, and writes the rows as groups with an `index`.
//!    If a bucket has too many rows for memory, sorted runs (`runs`) go to disk.
//!
//! Then the planner merges the indices by key. Rows of one key stay in the order of the pieces. Therefore the
//! mini-batches depend neither on the number of processes nor on their speed.
//!
//! `serve` is a helper process, `message` has the messages to it, and `codec` is the format of rows on disk.
//! This module imports `dataset`, `protocol` and below.

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
