//! What all jobs of one machine may use together.

use super::ByteSize;
use std::path::PathBuf;

/// The operator's caps for the jobs that run at the same time on one machine. None means no cap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCaps {
    /// Workers of all jobs together, at least 1.
    pub workers: Option<u32>,
    /// Memory that the budgets of all these workers may come to.
    pub memory: Option<ByteSize>,
    /// Where jobs keep count of each other; none means the usual place.
    pub directory: Option<PathBuf>,
}

impl MachineCaps {
    /// Whether anything is capped.
    pub fn any(&self) -> bool {
        self.workers.is_some() || self.memory.is_some()
    }
}
