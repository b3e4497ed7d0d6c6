//! Errors about models.

use crate::spec::ModelSpec;
use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with a model. The text is shown to users.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model's file or folder cannot be used.
    #[error("model {name}: {} {what}: {source}", path.display())]
    Io {
        /// The model.
        name: String,
        /// What failed, such as "cannot be read".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The model does not have the digest in the job file.
    #[error(
        "model {name}: {} has the SHA-256 {found}, but {expected}: it is not \
         the model that this job was made for; put the right model there, or change the digest",
        path.display()
    )]
    Digest {
        /// The model.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The digest that it has.
        found: String,
        /// The digest in the job file, with its key and line: `models.m.digest (job.yaml:12) is ...`.
        expected: String,
    },
    /// The model differs from the registered one.
    #[error(
        "model {which}: {} is not what was registered as {title}: its SHA-256 was {expected}, and is \
         {found}; restore the registered file, or register the present one as a new version",
        path.display()
    )]
    NotAsRegistered {
        /// The model, and where the job file names it.
        which: String,
        /// `NAME@VERSION`.
        title: String,
        /// Its file or its folder.
        path: PathBuf,
        /// The digest that it has.
        found: String,
        /// The digest that was registered.
        expected: String,
    },
    /// No inference library on this machine can run it.
    #[error("model {name}: {why}")]
    Refused {
        /// The model.
        name: String,
        /// What the model needs, and what to do.
        why: String,
    },
    /// The model is larger than a worker may load.
    #[error("model {name}: {why}")]
    TooLarge {
        /// The model.
        name: String,
        /// A sentence with its size and the limit.
        why: String,
    },
    /// The model was changed or replaced while the job was prepared.
    #[error(
        "model {name}: {} changed while the job was being prepared; start the job again once no \
         process writes to it",
        path.display()
    )]
    Changed {
        /// The model.
        name: String,
        /// Its file.
        path: PathBuf,
    },
}

pub(super) fn io_error(
    model: &ModelSpec,
    what: &'static str,
    path: &Path,
    source: io::Error,
) -> ModelError {
    ModelError::Io { name: model.name.clone(), what, path: path.to_owned(), source }
}
