//! What can go wrong while results are committed and while a job is taken up. Its words for people are here, or in the
//! errors that these wrap. Imports nothing of this folder.

use crate::files::OutputError;
use crate::journal::JournalError;
use crate::model::{Failure, FailureKind, WorkerId, os_error};
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a worker's file needs that has the name of another one.
const OTHER_NAME: &str = "put the agent name into the name of a file that each worker writes, or set output_files to \
                          append or overwrite";

/// A job that cannot begin, go on or end as it should; complete sentences for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// The operating system refused.
    #[error("cannot {action} {}: {}; {}", path.display(), os_error(source), next(source))]
    Disk {
        /// What was tried: `write to disk`.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The operating system refused to read a file. The message is its answer alone.
    #[error("{source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Rows or files could not be stored.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The output file is not what was written to it.
    #[error(
        "the output file {} {change}: another program wrote to it, the disk does not keep what it is \
         given, or a worker process was taken over. See to that, then take the job up again: rows that \
         are not in the output as they were committed are copied there again, or made again",
        path.display()
    )]
    OutputChanged {
        /// The output file.
        path: PathBuf,
        /// In what it differs.
        change: Change,
    },
    /// A published file has fewer bytes than mini-batches wrote to it.
    #[error(
        "{} has {found} bytes, and mini-batches of this job have written {written} to it: \
         put it back, or run the job anew with --overwrite",
        path.display()
    )]
    FileCut {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        found: u64,
        /// Bytes that were written.
        written: u64,
    },
    /// What a worker wrote outside mini-batches cannot be published.
    #[error("what {worker} wrote in init or shutdown cannot be published: {source}")]
    Left {
        /// The worker.
        worker: WorkerId,
        /// Why not.
        source: OutputError,
    },
    /// Of what workers wrote outside mini-batches, one name is a file's and a folder's.
    #[error(
        "the output {path:?} is a file of one of the workers {first} and {other} and a folder of \
         the other, made in init or shutdown: give them different names"
    )]
    LeftOtherKind {
        /// Below the output folder.
        path: String,
        /// One worker.
        first: WorkerId,
        /// The other worker.
        other: WorkerId,
    },
    /// Two workers wrote different files of one name outside mini-batches.
    #[error(
        "the workers {first} and {other} both wrote the output {path:?} in init or \
         shutdown, with different content: {OTHER_NAME}"
    )]
    LeftTwice {
        /// Below the output folder.
        path: String,
        /// One worker.
        first: WorkerId,
        /// The other worker.
        other: WorkerId,
    },
    /// A worker wrote a file outside mini-batches that has the name of a published one.
    #[error(
        "{worker} wrote the output {path:?} in init or shutdown, and a mini-batch wrote one of \
         that name, with different content: {OTHER_NAME}"
    )]
    LeftPublished {
        /// Below the output folder.
        path: String,
        /// The worker.
        worker: WorkerId,
    },
    /// The output file could not be made of what was appended.
    #[error(
        "the output file {} could not be made: {source}. The rows are kept in {}: see to that, then take \
         the job up again",
        path.display(), kept.display()
    )]
    Unmade {
        /// The output file.
        path: PathBuf,
        /// Where the rows are.
        kept: PathBuf,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The journal's notes of open columns are not what this program wrote.
    #[error("the journal's notes of the output's columns are damaged")]
    ColumnsNote,
    /// The journal's note of the header is not what this program wrote.
    #[error("the journal's note of the output's header is damaged")]
    HeaderNote,
    /// The journal's note of new files is not what this program wrote.
    #[error("the journal's note {note:?}: {source}")]
    ReplacementNote {
        /// The note.
        note: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// New files cannot be noted in the journal.
    #[error("the new output files cannot be noted: {0}")]
    Unnoted(#[source] serde_json::Error),
    /// The committer's thread could not be started.
    #[error(transparent)]
    Thread(io::Error),
    /// The committer's thread ended without a reply.
    #[error("the committer thread broke down")]
    BrokeDown,
    /// The disk hangs at the job's end.
    #[error(
        "the output could not be completed: the disk did not answer for {} s \
         (progress_update_timeout); see to the disk, then take the job up again",
        .0.as_secs_f64()
    )]
    Silent(Duration),
}

/// In what an output file differs from what was written to it; the end of a clause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Change {
    /// Its name is gone, or another file's.
    #[error("was removed, renamed or replaced while the job ran")]
    Replaced,
    /// It has another length.
    #[error("has {found} bytes, and {written} were written")]
    Length {
        /// Bytes that it has.
        found: u64,
        /// Bytes that were written.
        written: u64,
    },
    /// It begins with something else.
    #[error("does not begin with its header any more")]
    Header,
    /// Some of its bytes are others.
    #[error("holds other bytes from {from} up to {end} than {}", whose(*worker))]
    Bytes {
        /// The first byte of the rows.
        from: u64,
        /// The byte after the last one.
        end: u64,
        /// The worker that reported them; `None` for what the committer wrote itself.
        worker: Option<WorkerId>,
    },
}

impl CommitError {
    /// The operating system refused something.
    pub(super) fn disk(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Disk { action, path: path.to_owned(), source }
    }

    /// The same error, with the name that a folder was to have instead of the one that it was made under.
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

/// Errors are equal that say the same.
#[cfg(test)]
impl PartialEq for CommitError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// What to do when the operating system refused.
fn next(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "then take the job up again",
        _ => "check the disk, then run the job again",
    }
}

fn whose(worker: Option<WorkerId>) -> String {
    match worker {
        Some(worker) => format!("the rows that {worker} reported"),
        None => "what was written there".to_owned(),
    }
}

/// Why an attempt is not committed that its worker called a success.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejection {
    /// The part file does not hold the rows.
    #[error("{worker} reported rows that its part file does not hold: {fault}")]
    PartDamaged {
        /// The worker.
        worker: WorkerId,
        /// What is wrong with them.
        fault: PartFault,
    },
    /// A table of lines has other columns than the header line of the output.
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
    /// A table with types has other columns than the output.
    #[error(
        "the mini-batch's rows have other columns than the first ones of the job: {0}. \
         Return the same columns, with the same types and in the same order, from every call of run"
    )]
    OtherColumns(Difference),
    /// The files cannot be published.
    #[error(transparent)]
    Files(OutputError),
}

impl Rejection {
    /// The failure of the attempt.
    pub(super) fn failure(&self) -> Failure {
        let kind = match self {
            Self::PartDamaged { .. } => FailureKind::HostFault,
            Self::OtherHeader { .. } | Self::OtherColumns(_) => FailureKind::BadResults,
            Self::Files(_) => FailureKind::BadOutput,
        };
        Failure::new(kind, self.to_string())
    }
}

/// What is wrong with rows in a part file; a clause.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartFault {
    /// There should be none.
    #[error("this job keeps no rows")]
    Unwanted,
    /// The part file cannot be opened.
    #[error("the file is missing ({0})")]
    Missing(Errno),
    /// The part file is a folder, a pipe or the like.
    #[error("it is no ordinary file")]
    NoFile,
    /// They lie outside the part file.
    #[error("{length} bytes at {offset}, but it has {size}")]
    Outside {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes in the part file.
        size: u64,
    },
    /// Rows of another attempt lie there.
    #[error("those at {offset} are rows of another attempt ({from} to {to})")]
    Taken {
        /// The first byte.
        offset: u64,
        /// The first byte of the other rows.
        from: u64,
        /// The byte after the last one of the other rows.
        to: u64,
    },
    /// There are bytes, and no rows.
    #[error("no rows in {0} bytes")]
    NoRows(u64),
    /// The part file was cut.
    #[error("the file has become shorter")]
    Cut,
    /// The last line has no end.
    #[error("they do not end with a line end")]
    NoLineEnd,
    /// So many rows do not fit into so many bytes.
    #[error("{rows} rows in {length} bytes")]
    Rows {
        /// Rows.
        rows: u64,
        /// Bytes.
        length: u64,
    },
}

/// The first column that differs.
#[derive(Debug, thiserror::Error)]
#[error("{}", difference(*column, is.as_deref(), was.as_deref()))]
pub(super) struct Difference {
    /// Its number, from 1.
    pub(super) column: usize,
    /// The column of the table, if it has as many.
    pub(super) is: Option<String>,
    /// The column of the output, if it has as many.
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
