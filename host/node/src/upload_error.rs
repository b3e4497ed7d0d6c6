//! The errors of uploading local data.

use crate::model::UploadedChange;
use std::io;
use std::path::PathBuf;

/// Why data of this machine cannot be uploaded. The texts are shown to users.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// A file cannot be part of the upload.
    #[error("{key}: {reason}")]
    Unusable {
        /// The key in the job file.
        key: String,
        /// The reason, which names the file.
        reason: String,
    },
    /// A store keeps no empty folders.
    #[error(
        "{key}: {} has no files, and a store keeps no empty folders: put a file into it, or use a job_store that is a folder",
        path.display()
    )]
    Empty {
        /// The key in the job file.
        key: String,
        /// The folder.
        path: PathBuf,
    },
    /// The paths of an input cannot have the same template below them.
    #[error(
        "{0}: its partition_format names different parts of its paths, so the paths cannot be uploaded as one input: give \
         the input one path"
    )]
    Format(String),
    /// The path of the job store means several places.
    #[error(
        "job_store is {0}: a path with *, ?, [ or {{ cannot be used with --upload, because the job reads inputs from there; \
         choose another job_store"
    )]
    Wildcard(String),
    /// The name of a file cannot be written as text.
    #[error("{key}: the name of {path:?} is not UTF-8: rename it")]
    OddName {
        /// The key in the job file.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// A file has changed.
    #[error("{} has changed while it was uploaded: start the job again", .0.display())]
    Changed(PathBuf),
    /// What was uploaded is no longer complete.
    #[error(transparent)]
    Gone(#[from] UploadedChange),
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The job store cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file or folder in the job store.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
