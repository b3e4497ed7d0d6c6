//! Why a job cannot run on this machine, for people.

use super::features::NotBuilt;
use super::model_error::ModelError;
use super::python::PythonError;
use crate::compile::{CompileError, Takes};
use crate::dataset::DatasetError;
use crate::model::ByteSize;
use crate::spec::SpecErrors;
use crate::store::StoreError;
use crate::turns::TurnsError;
use crate::wall::WallError;
use std::io;
use std::path::PathBuf;

/// Why this machine cannot do what a job needs.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// An input is not there, or is not what it should be.
    #[error(transparent)]
    Input(#[from] DatasetError),
    /// An input lies in a store, and cannot be had from there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This build does not have what the job needs.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// The operator's policy does not allow it.
    #[error(transparent)]
    Policy(#[from] SpecErrors),
    /// The operator's caps for all jobs of the machine leave no room for this one.
    #[error(transparent)]
    Turns(#[from] TurnsError),
    /// The job would read what it writes, or overwrite what it reads.
    #[error(
        "{reader} and {what} {} are in each other's way, as the job would read what it writes: \
         {advice}",
        folder.display()
    )]
    Overlap {
        /// What is read, as in "input 'texts'".
        reader: String,
        /// "the job directory" or "the output folder".
        what: &'static str,
        /// That folder.
        folder: PathBuf,
        /// What to do.
        advice: String,
    },
    /// A path that child processes could not be told.
    #[error("the path of {what} is not UTF-8: {path:?}; rename the folder, or use another")]
    NotUtf8 {
        /// Whose path, as in "the job directory".
        what: String,
        /// The path.
        path: PathBuf,
    },
    /// A side input that is a single file cannot be handed over.
    #[error("the side input {} cannot be copied into the job directory: {source}", path.display())]
    SideInput {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Side inputs that are single files have more bytes than may be copied.
    #[error(
        "with the side input {}, which lies on another file system or is another user's, more than limits.copies ({most}) \
         would be copied into the job directory; put it into a folder of its own and name the folder, which is shown as \
         it is, or raise the limit", path.display()
    )]
    Copies {
        /// The file that was too much.
        path: PathBuf,
        /// What may be copied.
        most: ByteSize,
    },
    /// The entry script cannot be built, or is no entry script.
    #[error(transparent)]
    EntryScript(#[from] CompileError),
    /// A Python script cannot be run.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// The entry script takes another kind of mini-batch than the job hands over.
    #[error(
        "the entry script {} takes {takes}, but the job hands over {}: {}",
        path.display(), given.plain(), takes.remedy(*given)
    )]
    Misfit {
        /// The component.
        path: PathBuf,
        /// What it says of itself.
        takes: Takes,
        /// What the job's inputs are.
        given: Takes,
    },
    /// The entry script is not the one that the job file pins.
    #[error(
        "{path} has the SHA-256 {found}, but entry_script_digest is {expected}: it is not the \
         component that this job was made for; put the right one there, or change the pin"
    )]
    Digest {
        /// The component.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What the job file says.
        expected: String,
    },
    /// A path cannot be resolved.
    #[error("cannot find {}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A model is not there, or not the one that is meant.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// What is to compute with the job's models is not there.
    #[error("{0}")]
    Backend(String),
    /// The inputs could not be compared with what an earlier run saw.
    #[error("{0}")]
    Inputs(String),
    /// The job insists on a wall that this machine cannot build.
    #[error(transparent)]
    Wall(#[from] WallError),
    /// Somebody asked for the end before the job began. Holds the reason.
    #[error("{0}: the job was not begun, and what there is of it is as it was")]
    Cancelled(String),
    /// What an earlier run left in the folder for gathered rows is in the way.
    #[error("cannot remove {}: {source}", path.display())]
    Spill {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The compiled entry script is open, and cannot be handed on.
    #[error("the compiled entry script cannot be used: {0}")]
    Component(io::Error),
    /// No process can be started that plans the job.
    #[error("the planner process cannot be started: {0}")]
    Planner(io::Error),
    /// The memory of workers cannot be watched.
    #[error("the monitor of memory cannot be started: {0}")]
    Monitor(io::Error),
}
