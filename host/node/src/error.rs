//! The errors of preparing and starting a job on this machine.

use super::features::NotBuilt;
use super::model_error::ModelError;
use super::python::PythonError;
use super::upload_error::UploadError;
use crate::compile::{AcceptedKind, CompileError};
use crate::dataset::DatasetError;
use crate::machine_slots::SlotsError;
use crate::model::ByteSize;
use crate::spec::SpecErrors;
use crate::store::StoreError;
use crate::wall::WallError;
use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Why this machine cannot do what a job needs. The text is shown to users.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// An input is missing or cannot be used.
    #[error(transparent)]
    Input(#[from] DatasetError),
    /// An input is in a store and cannot be downloaded.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Data of this machine cannot be uploaded into the job's store.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// This machine divides the inputs in stores into other folders than the leader's.
    #[error(
        "this machine finds other folders of stores for the inputs than the leader: give the datastores the same \
         places on both machines"
    )]
    OtherSources,
    /// The inputs on this machine are not those of the leader's machine.
    #[error(
        "these inputs on this machine have other files than on the leader's machine, or files with other lengths or times of \
         change: {0}; put the inputs into a store, or copy them with their times (such as by rsync -a) to the same path"
    )]
    OtherFiles(String),
    /// The broker, through which other machines are reached, cannot be used.
    #[error(transparent)]
    Broker(Box<dyn Error + Send + Sync>),
    /// This build lacks a feature that the job needs.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// The operator's policy forbids the job.
    #[error(transparent)]
    Policy(#[from] SpecErrors),
    /// The operator's caps for all jobs of the machine leave no room for this one.
    #[error(transparent)]
    Slots(#[from] SlotsError),
    /// The job would read what it writes, or overwrite what it reads.
    #[error(
        "{reader} and {what} {} overlap, so the job would read what it writes: \
         {advice}",
        folder.display()
    )]
    Overlap {
        /// What is read, such as "input 'texts'".
        reader: String,
        /// "the job directory" or "the output folder".
        what: &'static str,
        /// The folder.
        folder: PathBuf,
        /// The advice for the user.
        advice: String,
    },
    /// A path that cannot be passed to child processes.
    #[error("the path of {what} is not UTF-8: {path:?}; rename the folder, or use another")]
    NotUtf8 {
        /// The path's role, such as "the job directory".
        what: String,
        /// The path.
        path: PathBuf,
    },
    /// A side input that is a single file cannot be copied.
    #[error("the side input {} cannot be copied into the job directory: {source}", path.display())]
    SideInput {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The side inputs that are single files must be copied, and together exceed the limit for copies.
    #[error(
        "the side input {} would be copied into the job directory, as it is on another file system or \
         belongs to another user, but all copies together would exceed limits.copies ({most}); put the file \
         into a separate folder and name that folder as the side input, since folders are not copied, or \
         raise the limit", path.display()
    )]
    Copies {
        /// The file that exceeded the limit.
        path: PathBuf,
        /// The limit.
        most: ByteSize,
    },
    /// The entry script cannot be compiled, or is not an entry script.
    #[error(transparent)]
    EntryScript(#[from] CompileError),
    /// A Python or JavaScript script cannot be run.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// The entry script takes another kind of mini-batch than the job has.
    #[error(
        "the entry script {} takes {takes}, but the job hands over {}: {}",
        path.display(), given.plain(), takes.remedy(*given)
    )]
    Misfit {
        /// The component.
        path: PathBuf,
        /// The kind that the entry script takes.
        takes: AcceptedKind,
        /// The kind that the job's inputs give.
        given: AcceptedKind,
    },
    /// The entry script is not the one that the job file pins.
    #[error(
        "{path} has the SHA-256 {found}, but entry_script_digest is {expected}: it is not the \
         component that this job was made for; put the right file there, or change entry_script_digest"
    )]
    Digest {
        /// The component.
        path: PathBuf,
        /// The digest of the component.
        found: String,
        /// The digest in the job file.
        expected: String,
    },
    /// A path cannot be resolved.
    #[error("cannot find {}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A model is missing, or is not the one that the job names.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An inference library that the job needs is missing.
    #[error("{0}")]
    Backend(String),
    /// The inputs cannot be compared with the inputs of an earlier run.
    #[error("{0}")]
    Inputs(String),
    /// The job requires a process sandbox (`os_sandbox`) that this machine cannot provide.
    #[error(transparent)]
    Wall(#[from] WallError),
    /// The job was cancelled before it began. Holds the reason.
    #[error("{0}: the job was not started, and its files are unchanged")]
    Cancelled(String),
    /// An earlier run left a folder with spilled rows, and Sandmill cannot remove the folder.
    #[error("cannot remove {}: {source}", path.display())]
    Spill {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Sandmill opened the compiled entry script, but cannot pass the file to the workers.
    #[error("the compiled entry script cannot be used: {0}")]
    Component(io::Error),
    /// The planner process cannot be started.
    #[error("the planner process cannot be started: {0}")]
    Planner(io::Error),
    /// The workers' memory cannot be watched.
    #[error("the memory monitor cannot be started: {0}")]
    Monitor(io::Error),
}
