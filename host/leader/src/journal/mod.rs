//! The journal records what is committed, in SQLite (WAL). It guarantees that no row is lost or duplicated.
//! If a commit fails, the job stops; if a report fails, the job continues. Imports `model` only.
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
