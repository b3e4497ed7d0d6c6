//! What all jobs of one machine may use together.

use super::ByteSize;
use std::path::PathBuf;

/// The operator's caps for the jobs that run at the same time on one machine. None means no cap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCaps {
    /// Workers of all jobs together, at least 1.
    pub workers: Option<u32>,
    /// Workers of all jobs of one tenant together, at least 1.
    pub workers_per_tenant: Option<u32>,
    /// Memory that the budgets of all these workers may come to.
    pub memory: Option<ByteSize>,
    /// Where jobs keep count of each other; none means the usual place.
    pub directory: Option<PathBuf>,
}

impl MachineCaps {
    /// Whether anything is capped.
    pub fn any(&self) -> bool {
        self.workers.is_some() || self.workers_per_tenant.is_some() || self.memory.is_some()
    }
}

/// Which processes a job's reports list, by name, user and what they use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessLists {
    /// All that the leader's user may see.
    #[default]
    Machine,
    /// The leader and the processes that come from it.
    Job,
    /// None.
    Off,
}

impl ProcessLists {
    /// All of them, with their names in a policy file.
    pub const NAMED: [(&str, Self); 3] =
        [("machine", Self::Machine), ("job", Self::Job), ("off", Self::Off)];
}
