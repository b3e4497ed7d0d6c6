//! Why a job cannot begin. The texts are shown to users.

use super::ClaimError;
use super::job_source::SourceError;
use crate::journal::JournalError;
use std::error::Error;

/// Why a job cannot begin. No mini-batch has run. But folders may have been created, and a guest crate may
/// have been built and an entry script compiled. The next run uses these builds.
#[derive(Debug, thiserror::Error)]
pub enum PreparationError<E: Error + 'static> {
    /// The job directory or the output folder is in use or unusable, or holds an earlier run that cannot
    /// resume.
    #[error(transparent)]
    JobDir(#[from] ClaimError),
    /// The journal of an earlier run cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The job file or the entry script cannot be put into the job's store.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The machine lacks something that the job needs, or does not allow it.
    #[error(transparent)]
    Node(E),
}
