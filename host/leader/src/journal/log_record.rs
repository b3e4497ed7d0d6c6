//! The content of the commit log's records.

use super::{JobIdentity, JournalChanges, ReceiptBatch};
use crate::model::JobStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The key of the position of the last record that the journal includes.
pub(super) const POSITION_KEY: &str = "log_position";

/// The prefix, before a worker's number, of the note that the worker ended normally and left files.
pub const DONE_PREFIX: &str = "store.done.";

/// The journal's note that it includes records of another job directory. Files of workers that these records
/// name are not in this directory.
pub(super) const FROM_LOG_NOTE: &str = "from_log";

/// A record of the commit log. The names are part of the log's format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogRecord {
    /// Record 0: the job begins, usually with an empty journal.
    Begin(Box<LogState>),
    /// Another run of the job leads it from now on.
    Lead {
        /// As in [`LogState::job_state`].
        job_state: Value,
        /// As in [`LogState::directory`].
        directory: String,
    },
    /// Changes of the journal.
    Changes(JournalChanges),
    /// The job has ended.
    End {
        /// How it ended.
        status: JobStatus,
        /// The last changes.
        changes: JournalChanges,
    },
    /// The log ends, because the job is started over or did not begin, or because the log is removed. No
    /// record follows that counts.
    Superseded {
        /// The id of the run that starts the job over. `None` if no run does.
        by: Option<String>,
    },
}

/// The state of a job: the payload of record 0, and of each snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogState {
    /// The content of `job.json` of the last run that led the job. The journal does not interpret it.
    pub job_state: Value,
    /// The job directory of that run. Files of workers that have not reached the output are only there.
    pub directory: String,
    /// The job.
    pub job: JobIdentity,
    /// Everything that the journal holds.
    pub content: JournalChanges,
    /// How the job ended, if it has ended.
    pub status: Option<JobStatus>,
}

impl LogRecord {
    /// The payload of the record for these changes and this end of the job. `receipts` are those of the changes, with
    /// their hashes.
    pub(super) fn bytes(
        changes: &JournalChanges,
        receipts: Vec<ReceiptBatch>,
        status: Option<JobStatus>,
    ) -> Vec<u8> {
        let changes = JournalChanges { receipts, ..changes.clone() };
        match status {
            Some(status) => Self::End { status, changes },
            None => Self::Changes(changes),
        }
        .to_bytes()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Plain data always serialises. If it did not, no reader would accept the record.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
