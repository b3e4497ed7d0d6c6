//! The journal records what is committed, in SQLite (WAL). It guarantees that no row is lost or duplicated.
//! If a commit fails, the job stops; if a report fails, the job continues. Imports `model` and the commit log
//! only.
//!
//! [`Journal`] is the interface, `schema` defines the tables, and `entry` defines the meaning of their rows.
//! `commit_log` connects the journal to the commit log in the job's store, if the job has one, and `log_record`
//! defines the log's records.

mod commit_log;
mod entry;
mod error;
mod log_record;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod unreadable;

pub use commit_log::LogSummary;
pub use entry::{
    Committed, CommittedCounts, EntryOrder, FileEntry, JobIdentity, JournalChanges, JournalEntry,
    MiniBatchEnd,
};
pub use error::{JournalDamage, JournalError};
pub use log_record::LogState;
pub use store::Journal;
pub use unreadable::{UnreadableFile, unreadable_note};
