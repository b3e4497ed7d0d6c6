//! Errors of committing results and of resuming a job. The texts are shown to users.

use crate::files::OutputError;
use crate::journal::JournalError;
use crate::model::{Failure, FailureKind, WorkerId, os_error};
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Advice for a worker's file that has the same name as another file.
const OTHER_NAME_ADVICE: &str = "put the agent name into the name of a file that each worker writes, or set \
                          output_files to append or overwrite";

/// The job cannot begin, continue or end properly. The texts are complete sentences.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// A system call failed.
    #[error("cannot {action} {}: {}; {}", path.display(), os_error(source), advice(source))]
    Disk {
        /// What was tried, as in `write to disk`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// The results of a completed job cannot be made again.
    #[error(
        "the job is completed, but some of the copies of its results in {0} of the job store are missing: if its \
         results are not where output says, run the job again with --overwrite"
    )]
    CopiesMissing(String),
    /// A file cannot be read. The message is the system's error, without additions.
    #[error("{source}")]
    Read { path: PathBuf, source: io::Error },
    /// Rows or files could not be stored.
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The output file does not hold what was written to it.
    #[error(
        "the output file {} {change}: another program wrote to it, the disk loses data, or a worker \
         process was compromised. Fix the cause, then resume the job: rows that are missing from the \
         output, or differ, are copied there again or computed again",
        path.display()
    )]
    OutputChanged { path: PathBuf, change: OutputChange },
    /// A published file has fewer bytes than mini-batches wrote to it.
    #[error(
        "{} has {found} bytes, and mini-batches of this job have written {written} to it: \
         restore the file, or run the job again with --overwrite",
        path.display()
    )]
    FileCut {
        path: PathBuf,
        /// Bytes that the file has.
        found: u64,
        /// Bytes that were written.
        written: u64,
    },
    /// What a worker wrote outside mini-batches cannot be published.
    #[error("what {worker} wrote in init or shutdown cannot be published: {source}")]
    Left { worker: WorkerId, source: OutputError },
    /// Outside mini-batches, one worker made a file and another a folder of the same name.
    #[error(
        "in init or shutdown, one of the workers {first} and {other} wrote the output {path:?} as a file, \
         and the other as a folder: give them different names"
    )]
    LeftOtherKind {
        /// The path below the output folder.
        path: String,
        first: WorkerId,
        other: WorkerId,
    },
    /// Outside mini-batches, two workers wrote different files of the same name.
    #[error(
        "the workers {first} and {other} both wrote the output {path:?} in init or \
         shutdown, with different content: {OTHER_NAME_ADVICE}"
    )]
    LeftTwice {
        /// The path below the output folder.
        path: String,
        first: WorkerId,
        other: WorkerId,
    },
    /// Outside mini-batches, a worker wrote a file that has the name of a published file.
    #[error(
        "{worker} wrote the output {path:?} in init or shutdown, and a mini-batch wrote a file \
         of that name, with different content: {OTHER_NAME_ADVICE}"
    )]
    LeftPublished {
        /// The path below the output folder.
        path: String,
        worker: WorkerId,
    },
    /// The output file could not be made from the appended rows.
    #[error(
        "the output file {} could not be made: {source}. The rows are kept in {}: fix the cause, then \
         resume the job",
        path.display(), kept.display()
    )]
    Unmade {
        path: PathBuf,
        /// Where the rows are.
        kept: PathBuf,
        source: Box<dyn Error + Send + Sync>,
    },
    /// The journal's notes on columns of unknown type are damaged.
    #[error("the journal's notes of the output's columns are damaged")]
    ColumnsNote,
    #[error("the journal's note of the output's header is damaged")]
    HeaderNote,
    /// The journal's note on files to rename and remove is damaged.
    #[error("the journal's note {note:?} is damaged: {source}")]
    ReplacementNote { note: String, source: serde_json::Error },
    /// The new files cannot be recorded in the journal.
    #[error("the new output files cannot be recorded in the journal: {0}")]
    Unnoted(#[source] serde_json::Error),
    /// Another process waits to lead the job, and this one cannot reach its nodes.
    #[error(
        "this machine cannot reach the other ones through the broker, and another process waits to lead the job. This \
         process stops, and the other one continues the job"
    )]
    GivesWay,
    /// The committer's thread could not be started.
    #[error(transparent)]
    Thread(io::Error),
    /// The committer's thread ended without a reply.
    #[error("the committer thread broke down")]
    BrokeDown,
    /// The disk did not respond at the job's end.
    #[error(
        "the output could not be completed: the disk did not answer for {} s \
         (progress_update_timeout); check the disk, then resume the job",
        .0.as_secs_f64()
    )]
    Silent(Duration),
}

/// How an output file differs from what was written to it. The text follows the name of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputChange {
    /// The file's name is gone, or leads to another file.
    #[error("was removed, renamed or replaced while the job ran")]
    Replaced,
    #[error("has {found} bytes, and {written} were written")]
    Length {
        /// Bytes that the file has.
        found: u64,
        /// Bytes that were written.
        written: u64,
    },
    #[error("no longer begins with its header")]
    Header,
    /// Some of the file's bytes differ.
    #[error("differs in bytes {from} up to {end} from {}", bytes_source(*worker))]
    Bytes {
        /// The first byte of the rows.
        from: u64,
        /// The byte after the last one.
        end: u64,
        /// The worker that reported the rows. `None` if the committer itself wrote these bytes.
        worker: Option<WorkerId>,
    },
}

impl CommitError {
    /// A failed system call.
    pub(super) fn disk(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Disk { action, path: path.to_owned(), source }
    }

    /// Whether another process leads the job, or is about to.
    pub(crate) fn is_replacement(&self) -> bool {
        match self {
            Self::GivesWay => true,
            Self::Journal(error) => error.is_replacement(),
            _ => false,
        }
    }

    /// The same error, but with the folder's final name instead of the temporary one.
    pub(super) fn renamed(mut self, made: &Path, named: &Path) -> Self {
        match &mut self {
            Self::Disk { path, .. }
            | Self::Output(OutputError::Io { path, .. })
            | Self::OutputChanged { path, .. } => {
                if let Ok(inner) = path.strip_prefix(made) {
                    *path = named.join(inner);
                }
            }
            _ => {}
        }
        self
    }
}

/// Two errors are equal if their texts are.
#[cfg(test)]
impl PartialEq for CommitError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// What the user should do after a failed system call.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "then resume the job",
        _ => "check the disk, then run the job again",
    }
}

fn bytes_source(worker: Option<WorkerId>) -> String {
    match worker {
        Some(worker) => format!("the rows that {worker} reported"),
        None => "what was written there".to_owned(),
    }
}

/// Why an attempt is rejected although its worker called it a success.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejection {
    /// The part file does not hold the rows.
    #[error("{worker} reported rows that its part file does not hold: {fault}")]
    PartDamaged { worker: WorkerId, fault: PartFault },
    /// The output consists of lines, and the table's columns differ from its header line.
    #[error(
        "the mini-batch's table has the columns {is:?}, but the output file begins with {was:?}: \
         return the same columns, in the same order, from every call of run, or do without the \
         header line"
    )]
    OtherHeader {
        /// The columns.
        is: String,
        /// The header line.
        was: String,
    },
    /// The output has types, and the table's columns differ from its columns.
    #[error(
        "the mini-batch's rows have other columns than the first rows of the job: {0}. \
         Return the same columns, with the same types and in the same order, from every call of run"
    )]
    OtherColumns(ColumnDifference),
    /// The files cannot be published.
    #[error(transparent)]
    Files(OutputError),
}

impl Rejection {
    pub(super) fn failure(&self) -> Failure {
        let kind = match self {
            Self::PartDamaged { .. } => FailureKind::HostFault,
            Self::OtherHeader { .. } | Self::OtherColumns(_) => FailureKind::BadResults,
            Self::Files(_) => FailureKind::BadOutput,
        };
        Failure::new(kind, self.to_string())
    }
}

/// What is wrong with rows in a part file. The text is a clause.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartFault {
    #[error("this job keeps no rows")]
    Unwanted,
    #[error("the file cannot be opened ({0})")]
    Missing(Errno),
    /// The part file is a folder, a pipe or something similar.
    #[error("it is not a regular file")]
    NoFile,
    /// The rows are outside the part file.
    #[error("{length} bytes at offset {offset}, but the file has {size}")]
    Outside {
        offset: u64,
        length: u64,
        /// The size of the part file.
        size: u64,
    },
    /// Another attempt's rows are at the same position.
    #[error("the bytes at offset {offset} are rows of another attempt ({from} to {to})")]
    Taken {
        offset: u64,
        /// The first byte of the other rows.
        from: u64,
        /// The byte after the last one of the other rows.
        to: u64,
    },
    #[error("no rows in {0} bytes")]
    NoRows(u64),
    #[error("the file has become shorter")]
    Cut,
    #[error("they do not end with a line end")]
    NoLineEnd,
    /// The number of rows does not fit the number of bytes.
    #[error("{rows} rows in {length} bytes")]
    Rows {
        rows: u64,
        /// Bytes.
        length: u64,
    },
}

/// The first column that differs.
#[derive(Debug, thiserror::Error)]
#[error("{}", difference(*column, is.as_deref(), was.as_deref()))]
pub(super) struct ColumnDifference {
    /// The number of the column, from 1.
    pub(super) column: usize,
    /// The table's column. `None` if the table has fewer columns.
    pub(super) is: Option<String>,
    /// The output's column. `None` if the output has fewer columns.
    pub(super) was: Option<String>,
}

fn difference(column: usize, is: Option<&str>, was: Option<&str>) -> String {
    match (is, was) {
        (Some(is), Some(was)) => format!("column {column} is {is}, and was {was}"),
        (Some(is), None) => format!("column {column}, {is}, was not there"),
        (None, Some(was)) => format!("column {column}, {was}, is not there"),
        (None, None) => String::new(),
    }
}
