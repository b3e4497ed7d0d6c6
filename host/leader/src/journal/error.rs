//! Errors of the journal. The texts are shown to users.

use crate::model::MiniBatchId;
use rusqlite::ErrorCode;
use sandmill_commit_log::{LogError, RecordDamage};
use std::io;
use std::path::{Path, PathBuf};

/// A journal that cannot be made, opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is a journal already.
    #[error("the journal {0} exists already: start in an empty job directory")]
    Exists(PathBuf),
    /// There is no journal.
    #[error(
        "there is no journal at {0}, so the job cannot be resumed: run it again with --overwrite, or \
         in another --job-dir"
    )]
    Missing(PathBuf),
    /// Another process has opened the journal.
    #[error(
        "the journal {0} is in use: another process works on this job directory; wait for it to \
         end, or use another --job-dir"
    )]
    Locked(PathBuf),
    /// The file system is full.
    #[error(
        "no space left on the disk that holds the journal {0}: free some space, then run the job \
         again"
    )]
    DiskFull(PathBuf),
    /// Writing is not permitted.
    #[error(
        "the journal {0} cannot be written: check the owner and the permissions of the job directory"
    )]
    ReadOnly(PathBuf),
    /// The file is not what this program wrote.
    #[error(
        "the journal {path} is damaged ({damage}): the job cannot be resumed; run it again with \
         --overwrite, or in another --job-dir"
    )]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// What was found. It is part of the message, so it is not an error source.
        damage: JournalDamage,
    },
    /// The journal cannot be copied in order to read it.
    #[error("the journal {0} cannot be read: {1}")]
    NotCopied(PathBuf, #[source] io::Error),
    /// Another version of Sandmill wrote the journal.
    #[error(
        "the journal {path} has format {found}, and this version of sandmill reads only format {known}: \
         use the version that started the job"
    )]
    Version {
        /// The journal.
        path: PathBuf,
        /// The journal's format.
        found: i64,
        /// The format of this build.
        known: i64,
    },
    /// The mini-batch has ended before, so this is a late attempt. The whole group that contains this attempt
    /// was not committed.
    #[error(
        "mini-batch {id} is in the journal {path} already; a late attempt must not be committed"
    )]
    AlreadyCommitted {
        /// The journal.
        path: PathBuf,
        /// The mini-batch.
        id: MiniBatchId,
    },
    /// The journal cannot hold a number this large. No real job reaches such a number.
    #[error(
        "mini-batch {id} cannot be written to the journal {path}: {what} is {value}; the maximum is 2^63 - 1"
    )]
    OutOfRange {
        /// The journal.
        path: PathBuf,
        /// The mini-batch.
        id: MiniBatchId,
        /// Which number.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// The commit log in the job's store failed, or another process has taken over the job.
    #[error("{source}{}", log_advice(source))]
    Log {
        /// The commit log's error.
        #[from]
        source: LogError,
    },
    /// The journal includes records that the commit log does not have.
    #[error(
        "the commit log in the job store is not the one that this job wrote: it {what}, so the job store was \
         probably restored from an older copy; restore the latest state of the job store, or run the job \
         again with --overwrite"
    )]
    OtherLog {
        /// What was found, as a clause.
        what: String,
    },
    /// A record of the commit log has content that this version does not know.
    #[error(
        "record {number} of the commit log in the job store cannot be understood ({what}): use the version of \
         sandmill that wrote it"
    )]
    UnknownRecord {
        /// The number of the record, or of the last record that the snapshot includes.
        number: u64,
        /// What is wrong with the record.
        what: String,
    },
    /// Anything else.
    #[error("the journal {path} failed: {source}; check the disk, then run the job again")]
    Sqlite {
        /// The journal.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

/// What to do about an error of the commit log. The text continues the error's message.
fn log_advice(error: &LogError) -> &'static str {
    match error {
        LogError::Fenced { .. } => ". This process stops: only the results of the other one count",
        LogError::Unavailable { .. } | LogError::Closed => {
            "; check the job store, then run the job again: it continues from its last record"
        }
        LogError::Damaged { damage: RecordDamage::Format { .. }, .. } => {
            "; use the version of sandmill that wrote it"
        }
        LogError::Damaged { name, .. } | LogError::Missing { name }
            if name.starts_with("runs/") =>
        {
            "; restore the job store from a copy, or remove the job's folder in it, if no process runs the \
             job, and run the job again with --overwrite"
        }
        LogError::Damaged { .. } | LogError::Missing { .. } => {
            "; restore the job store from a copy, or run the job again with --overwrite in its job directory"
        }
    }
}

/// What is wrong with a damaged journal. The text is a clause.
#[derive(Debug, thiserror::Error)]
pub enum JournalDamage {
    /// SQLite finds no database, or unexpected content.
    #[error(transparent)]
    Database(rusqlite::Error),
    /// A job field is missing that every journal has.
    #[error("the job's {0} is missing")]
    Missing(&'static str),
    /// The time at which the job began is malformed.
    #[error("{0:?} is not a point in time")]
    Time(String),
    /// The sums of the job's receipts are malformed.
    #[error("{0:?} are not sums of receipts")]
    Receipts(String),
    /// The status with which the job ended is unknown.
    #[error("{0:?} is not a status of a job")]
    Status(String),
}

impl JournalError {
    /// Whether there is no journal, or one that was never completed or is damaged.
    pub fn is_unusable(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Corrupt { .. } | Self::Version { found: 0, .. })
    }

    /// Whether another process leads the job.
    pub fn is_replacement(&self) -> bool {
        matches!(self, Self::Log { source: LogError::Fenced { .. } })
    }

    /// The error for a job store that cannot be read or written. `name`: the object or folder.
    pub(crate) fn no_store(name: String, source: io::Error) -> Self {
        LogError::Unavailable { name, source }.into()
    }

    /// Translates SQLite's error.
    pub(super) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(path),
            Some(ErrorCode::DiskFull) => Self::DiskFull(path),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly(path)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt { path, damage: JournalDamage::Database(source) }
            }
            _ => Self::Sqlite { path, source },
        }
    }
}
