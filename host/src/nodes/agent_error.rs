//! Why an agent, or its part in a job, could not go on.

use crate::bus::{BusError, NoRandomBytes};
use crate::engine::ClaimError;
use crate::node::NodeError;
use std::io;
use std::path::PathBuf;

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
    #[error("the job file {} is not that of the leader's job on this machine", .0.display())]
    OtherJob(PathBuf),
    /// The leader asks for something that the job's signer has not signed.
    #[error("the leader asks for something else than what the job's signer has signed")]
    NotSigned,
    /// The job file has changed since the job was signed.
    #[error(
        "the job file {} on this machine is not the one that was signed: it has changed since the leader read it; start the job \
         again",
        .0.display()
    )]
    OtherJobFile(PathBuf),
    /// This machine has not what was signed.
    #[error("these differ from what was signed: {0}")]
    Different(String),
    /// The job has no store here.
    #[error("the job file has no job_store on this machine")]
    NoStore,
    /// The job's store is not the leader's.
    #[error(
        "the folder {} is not the one that the leader uses: the machines must share job_store at the same path{}",
        folder.display(),
        source.as_ref().map(|error| format!(" ({error})")).unwrap_or_default()
    )]
    NotShared {
        /// The folder.
        folder: PathBuf,
        /// Why the proof could not be read. `None` if it is another one.
        source: Option<io::Error>,
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
    /// Results cannot be made durable.
    #[error("results cannot be written to {}: {source}", folder.display())]
    Sync {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}
