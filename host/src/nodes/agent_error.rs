//! Why an agent, or its part in a job, could not go on.

use super::fetched_job::FetchJobError;
use crate::bus::{BusError, NoRandomBytes};
use crate::engine::{ClaimError, LogError};
use crate::node::NodeError;
use std::io;
use std::path::{Path, PathBuf};

/// Why an agent, or its part in a job, could not go on. The text is shown to users.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The broker cannot be used.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// This machine cannot do what the job needs.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A path of the job cannot be used.
    #[error(transparent)]
    Paths(#[from] ClaimError),
    /// The job file cannot be read here, or its content is not allowed.
    #[error("the job file cannot be used on this machine: {0}")]
    JobFile(String),
    /// The job file names another job than the leader runs.
    #[error("the job file in the job's store is not that of the leader's job")]
    OtherJob,
    /// The leader asks for something that the job's signer has not signed.
    #[error("the leader asks for something else than what the job's signer has signed")]
    NotSigned,
    /// The job file in the store is not the one that was signed.
    #[error("the job file in the job's store is not the one that was signed")]
    OtherJobFile,
    /// This machine has not what was signed.
    #[error("these differ from what was signed: {0}")]
    Different(String),
    /// The job has no store here.
    #[error("the job file has no job_store on this machine")]
    NoStore,
    /// The job cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchJobError),
    /// The job file names another store than the leader.
    #[error("the leader named another job store or tenant than the job file")]
    OtherStore,
    /// The job's store is not the leader's.
    #[error("the job store {store} is not the one that the leader uses: {advice}")]
    NotShared {
        /// The job's folder or address.
        store: String,
        /// What the operator shall do.
        advice: &'static str,
    },
    /// The leader gave out a number that no node can have.
    #[error("the leader gave out a number of a node that is too large")]
    Number,
    /// The leader named a run that cannot be a folder.
    #[error("the leader named a run that cannot be a folder of the job's store")]
    Run,
    /// A thread or a runtime cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// The system has no random bytes for a key.
    #[error(transparent)]
    Key(#[from] NoRandomBytes),
    /// The leader's name is not that of a key.
    #[error("the name of the job's leader is not that of a key")]
    LeaderName,
    /// No folder for the files of workers is known.
    #[error("no folder for the files of workers is known: name one by --work-dir")]
    NoWorkDir,
    /// The job's store cannot be read.
    #[error("the job store {store} cannot be read on this machine: {source}")]
    Unreadable {
        /// The job's folder or address.
        store: String,
        /// Why.
        source: io::Error,
    },
    /// The folder for workers' files on this machine failed.
    #[error("cannot {action} {}: {source}; the option --work-dir names another folder", path.display())]
    Local {
        /// What failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk of this machine is full.
    #[error("the disk of {} has no room: {message}", folder.display())]
    NoSpace {
        /// The folder.
        folder: PathBuf,
        /// The worker's message.
        message: String,
    },
    /// Results cannot be put into the job's store.
    #[error("results cannot be written to the job's store: {0}")]
    Upload(LogError),
    /// The disk has no room for objects of stores.
    #[error("objects of stores cannot be kept on this machine: {0}")]
    NoRoom(String),
    /// Results cannot be made durable.
    #[error("results cannot be written to {}: {source}", folder.display())]
    Sync {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl AgentError {
    /// The error of a file or folder on this machine.
    pub(super) fn local(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Local { action, path: path.to_owned(), source }
    }
}
