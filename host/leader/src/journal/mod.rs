//! The journal records what is committed, in SQLite (WAL). It guarantees that no row is lost or
//! duplicated. If a commit to the journal fails, the job stops. If a report to the user fails, the
//! job continues. This module imports only `model` and the commit log.
//!
//! [`Journal`] is the interface, `schema` defines the tables, and `entry` defines the meaning of their rows.
//! `commit_log` connects the journal to the commit log in the job's store, if the job has one. `log_reader`
//! applies the log's records to a journal, and `log_record` defines them. `receipt_chain` writes the receipts of attempts,
//! and `receipt_reader` reads and checks them.

mod commit_log;
mod entry;
mod error;
mod log_reader;
mod log_record;
#[cfg(test)]
mod log_tests;
mod receipt_chain;
mod receipt_reader;
#[cfg(test)]
mod receipt_tests;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod unreadable;

pub use commit_log::{LogSummary, directory_id, remove_journal};
pub use entry::{
    Committed, CommittedCounts, EntryOrder, FileEntry, JobIdentity, JournalChanges, JournalEntry,
    MiniBatchEnd, ReceiptBatch,
};
pub use error::{JournalDamage, JournalError};
pub use log_record::{DONE_PREFIX, LogState};
pub use receipt_reader::{BrokenReceipt, ReceiptReader, SealedReceipt};
pub use store::{Journal, journal_files};
pub use unreadable::{UnreadableFile, unreadable_note};
