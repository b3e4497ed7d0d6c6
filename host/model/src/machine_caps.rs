//! Limits for all jobs of one machine together.

use super::ByteSize;
use std::path::PathBuf;

/// The operator's caps for one machine. They limit what all jobs that run there at the same time
/// use together. `None` means no cap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCaps {
    /// The most workers of all jobs together. At least 1.
    pub workers: Option<u32>,
    /// The most workers of all jobs of one tenant together. At least 1.
    pub workers_per_tenant: Option<u32>,
    /// The most memory of all jobs together: the sum of the memory budgets of their workers.
    pub memory: Option<ByteSize>,
    /// The percentage `r` of the machine that is reserved for new tenants: while `n` tenants have jobs, `(r/100)^n` of it stays
    /// free. A reservation of less than one worker is dropped. At most 99.
    pub newcomers_percent: u32,
    /// The weight of the job's tenant: it gets a share of the machine in proportion. 0 counts as 1.
    pub tenant_weight: u32,
    /// The most room on its disk that the work of an agent (`sandmill node`) may take.
    pub node_disk: Option<ByteSize>,
    /// How much room an agent leaves free on its disks.
    pub node_disk_free: Option<ByteSize>,
    /// The folder in which each job records what it uses, so that other jobs can count it. `None`
    /// means the default folder.
    pub directory: Option<PathBuf>,
}

impl MachineCaps {
    /// Whether there is any cap.
    pub fn any(&self) -> bool {
        self.workers.is_some() || self.workers_per_tenant.is_some() || self.memory.is_some()
    }
}

/// Which processes a job's reports list, with their names, users and resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessLists {
    /// All processes that the leader's user may see.
    #[default]
    Machine,
    /// The leader and its descendants.
    Job,
    /// No processes.
    Off,
}

impl ProcessLists {
    /// All values, with their names in a policy file.
    pub const NAMED: [(&str, Self); 3] =
        [("machine", Self::Machine), ("job", Self::Job), ("off", Self::Off)];
}
