//! What is committed, in SQLite (WAL): the promise that no row is lost or doubled. Not a reporter:
//! a failed commit stops the job. Imports `model` only.
//!
//! [`Journal`] is the door, `schema` the tables, `entry` what a row of them means.

mod entry;
mod error;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod unreadable;

pub use entry::{Changes, Committed, Counts, End, Entry, FileEntry, JobIdentity, Order};
pub use error::{Damage, JournalError};
pub use store::Journal;
pub use unreadable::{Unreadable, unreadable_note};
