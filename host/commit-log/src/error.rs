//! Errors of the commit log. The texts are shown to users.

use super::record::{RecordDamage, Writer};
use std::io;

/// A commit log that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process has appended the record that this one wanted to append. So the other process leads the
    /// job, and nothing that this one does counts any longer.
    #[error(
        "another process leads the job now: process {} on {} has written record {number} of the commit log",
        by.pid, by.host
    )]
    Fenced {
        /// The number of the record.
        number: u64,
        /// The other process.
        by: Writer,
    },
    /// The store did not answer, or refused. It is unknown whether the record is in the log.
    #[error("the job store failed: {name}: {source}")]
    Unavailable {
        /// The object.
        name: String,
        /// The store's last answer.
        source: io::Error,
    },
    /// An object of the log is not what was written.
    #[error("the job store is damaged: {name}: {damage}")]
    Damaged {
        /// The object.
        name: String,
        /// What was found. It is part of the message, so it is not an error source.
        damage: RecordDamage,
    },
    /// A record is missing, although later ones exist.
    #[error("the job store is damaged: {name} is missing, although the log has later records")]
    Missing {
        /// The object.
        name: String,
    },
    /// An earlier append failed, so the log may not be appended to any longer.
    #[error("an earlier write to the commit log failed")]
    Closed,
}
