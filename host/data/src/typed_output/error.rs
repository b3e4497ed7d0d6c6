//! Why an output file could not be made.

use crate::model::ByteSize;
use crate::output::FinishError;
use crate::wall::{WallError, death};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why the child process did not make the output file.
#[derive(Debug, thiserror::Error)]
pub enum TypedOutputError {
    /// The process could not be started, or waiting for it failed.
    #[error("{} cannot be run to make it: {source}", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The process reported an error, and exited with exit code 1.
    #[error("{message}")]
    Reported {
        /// Its message, printable.
        message: String,
    },
    /// The process ended in another way.
    #[error("{end}{}", message_suffix(message))]
    Ended {
        /// How it ended.
        end: FinishEnd,
        /// Its message, printable; may be empty.
        message: String,
    },
}

/// How the child process ended.
#[derive(Debug)]
pub enum FinishEnd {
    /// The process used up its processor time.
    Time {
        /// The limit, in seconds.
        limit: u64,
    },
    /// The file reached its size limit.
    Size {
        /// The limit.
        limit: ByteSize,
    },
    /// The process aborted, as Rust programs do when they cannot allocate memory.
    Memory {
        /// The limit.
        limit: ByteSize,
    },
    /// The process ended in another way.
    Other(ExitStatus),
}

impl fmt::Display for FinishEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { limit } => {
                write!(f, "it was not done after {limit} seconds of processor time")
            }
            Self::Size { limit } => write!(f, "it would be larger than {limit}"),
            Self::Memory { limit } => write!(
                f,
                "the process that makes it gave up, probably because it needed more than {limit} of memory"
            ),
            Self::Other(status) => write!(f, "the process that makes it {}", death(*status)),
        }
    }
}

fn message_suffix(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!("; its output: {message}") }
}

/// Errors inside the child process.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    /// The command line is not one that the leader writes: a user ran the command by hand.
    #[error("this command is run by sandmill itself")]
    ByHand,
    /// The operating system refused a step before the wall is built.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// The wall cannot be built.
    #[error(transparent)]
    Wall(#[from] WallError),
    /// The file cannot be made.
    #[error(transparent)]
    Finish(#[from] FinishError),
}
