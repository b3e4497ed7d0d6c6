//! Why an output file is not made.

use crate::model::ByteSize;
use crate::output::FinishError;
use crate::wall::{WallError, death};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why the process that makes an output file did not make it.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// It cannot be started, or not be waited for.
    #[error("{} cannot be run to make it: {source}", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It said why, and ended as it should then.
    #[error("{message}")]
    Said {
        /// What it said, fit to be shown.
        message: String,
    },
    /// It ended otherwise.
    #[error("{end}{}", said(message))]
    Ended {
        /// How.
        end: End,
        /// What it said, fit to be shown; may be empty.
        message: String,
    },
}

/// How the process that makes an output file ended.
#[derive(Debug)]
pub enum End {
    /// It used all the processor time that it may have.
    Time {
        /// In seconds.
        limit: u64,
    },
    /// The file reached the largest size that it may have.
    Size {
        /// That size.
        limit: ByteSize,
    },
    /// It gave up, as a process does that is refused memory.
    Memory {
        /// The memory that it may have.
        limit: ByteSize,
    },
    /// In another way.
    Other(ExitStatus),
}

impl fmt::Display for End {
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

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!("; what it said: {message}") }
}

/// What goes wrong in the process itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    /// The words of the command line are not those of the leader.
    #[error("this command is run by sandmill itself")]
    ByHand,
    /// The operating system refused what comes before the wall.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// The wall cannot be built.
    #[error(transparent)]
    Wall(#[from] WallError),
    /// The file cannot be made.
    #[error(transparent)]
    Finish(#[from] FinishError),
}
