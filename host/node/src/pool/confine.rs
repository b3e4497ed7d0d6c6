//! Makes the cgroups of workers, if the machine and the job allow cgroups.

use super::error::NoCgroups;
use crate::model::MemoryBudget;
use crate::model::{Failure, JobDir, OsSandbox, WorkerId};
use crate::wall::{LeafQuota, Leaves, ProcessCgroup};
use rustix::fs::statfs;
use std::path::Path;
use std::sync::Arc;

/// The limit on a worker's threads. A worker has three, and a few more with a GPU; the rest is for the
/// threads of a driver.
const MAX_THREADS: u32 = 64;

/// The kernel's magic numbers of the file systems that keep files in memory: tmpfs, ramfs.
const IN_MEMORY_MAGIC: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Makes the cgroups of workers.
#[derive(Debug, Default)]
pub(super) struct Confinement {
    /// `None` if workers get no cgroups.
    parent: Option<CgroupParent>,
    /// Why the worker that was started last has no cgroup. `None` if it has one.
    missing: Option<String>,
}

/// Where the cgroups of workers are made, and with which limits.
#[derive(Debug)]
struct CgroupParent {
    leaves: Arc<Leaves>,
    quota: LeafQuota,
    budget: MemoryBudget,
}

#[derive(Debug)]
pub(super) struct WorkerCgroup {
    pub(super) leaf: ProcessCgroup,
    budget: MemoryBudget,
}

/// Where cgroups can be made, or why they cannot.
pub(super) type CgroupRoot = Result<Arc<Leaves>, NoCgroups>;

/// Finds where this machine allows cgroups. Must be called while this process has no children.
pub(super) fn cgroup_root(mode: OsSandbox) -> CgroupRoot {
    match mode {
        OsSandbox::Off => Err(NoCgroups::Off),
        OsSandbox::Required | OsSandbox::BestEffort => Ok(Leaves::prepare()?),
    }
}

impl Confinement {
    /// Stores where to make the cgroups of a job's workers, and with which limits. Makes no cgroup.
    pub(super) fn new(cgroup_root: CgroupRoot, job_dir: &JobDir, budget: MemoryBudget) -> Self {
        let leaves = match cgroup_root {
            Ok(leaves) => leaves,
            Err(reason) => return Self { parent: None, missing: Some(reason.to_string()) },
        };
        // The files that a worker writes to a file system in memory count as memory of its cgroup
        // until they are removed. If the job directory is on such a file system, we set no memory
        // limit.
        let memory = (!is_in_memory(job_dir.root())).then(|| budget.total().0);
        let quota = LeafQuota { memory, threads: MAX_THREADS };
        Self { parent: Some(CgroupParent { leaves, quota, budget }), missing: None }
    }

    /// Makes the cgroup of a worker that is about to start. `None` if the worker has to run without one.
    pub(super) fn worker_cgroup(&mut self, worker: WorkerId) -> Option<WorkerCgroup> {
        let CgroupParent { leaves, quota, budget } = self.parent.as_ref()?;
        let leaf = leaves.leaf(&worker.to_string(), quota);
        self.missing = leaf.as_ref().err().map(ToString::to_string);
        Some(WorkerCgroup { leaf: leaf.ok()?, budget: budget.clone() })
    }

    /// The folder that contains the cgroups of workers. `None` if workers get none.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.parent.as_ref().map(|parent| parent.leaves.folder())
    }

    /// Why the worker that was started last has no cgroup.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

impl WorkerCgroup {
    /// Removes the cgroup of a worker that has ended. Returns the failure if the kernel killed the worker at
    /// the cgroup's memory limit.
    pub(super) fn end(self, signal: Option<i32>) -> Option<Failure> {
        let is_out_of_memory = signal == Some(libc::SIGKILL) && self.leaf.was_out_of_memory();
        is_out_of_memory.then(|| self.budget.ended_by_cgroup())
    }
}

fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|disk| IN_MEMORY_MAGIC.contains(&disk.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Limits;

    #[test]
    fn without_the_wall_no_cgroup_is_made() {
        let budget = MemoryBudget::new(&Limits::default(), 0, 0);
        let mut confinement =
            Confinement::new(cgroup_root(OsSandbox::Off), &JobDir::new("job"), budget);
        assert!(confinement.worker_cgroup(WorkerId(0)).is_none());
        assert_eq!(confinement.missing(), Some("os_sandbox is off"));
    }

    #[test]
    fn file_systems_in_memory_are_detected() {
        assert!(!is_in_memory(Path::new("/proc")) && !is_in_memory(Path::new("/not there")));
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        match mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm tmpfs ")) {
            true => assert!(is_in_memory(Path::new("/dev/shm"))),
            false => eprintln!("not tried: /dev/shm is not a tmpfs here"),
        }
    }
}
