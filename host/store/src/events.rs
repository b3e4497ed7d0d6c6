//! What those who need objects, the processes that fetch them and who sends for them tell each other.

use super::process::Said;
use std::path::PathBuf;

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    /// These files are wanted under this number.
    Want(u64, Vec<PathBuf>),
    /// Nobody needs what was wanted under these numbers any more.
    Release(Vec<u64>),
    /// A process for a folder said something; the number tells it from others for the same folder.
    Said(usize, u64, Said),
    /// The job is over.
    End,
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The objects that were wanted under this number: all of them are here, but for those at these places of
    /// the list, which cannot be had for these reasons.
    Ready(u64, Vec<(u32, String)>),
    /// Something moves.
    Progress,
    /// The disk has no room for what is to come: nothing more comes, and no object is to blame. In words.
    NoSpace(String),
}
