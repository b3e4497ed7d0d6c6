//! The journal records what is committed, in SQLite (WAL). It guarantees that no row is lost or
//! duplicated. If a commit to the journal fails, the job stops. If a report to the user fails, the
//! job continues. This module imports only `model`.
//!
//! [`Journal`] is the interface, `schema` defines the tables, and `entry` defines the meaning of their rows.

mod entry;
mod error;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod unreadable;

pub use entry::{
    Committed, CommittedCounts, EntryOrder, FileEntry, JobIdentity, JournalChanges, JournalEntry,
    MiniBatchEnd,
};
pub use error::{JournalDamage, JournalError};
pub use store::Journal;
pub use unreadable::{UnreadableFile, unreadable_note};
