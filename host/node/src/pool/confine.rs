//! The cgroups of workers, if there are any.

use super::error::NoCgroups;
use crate::model::MemoryBudget;
use crate::model::{Failure, JobDir, OsSandbox, WorkerId};
use crate::wall::{LeafQuota, Leaves, ProcessCgroup};
use rustix::fs::statfs;
use std::path::Path;
use std::sync::Arc;

/// The limit on a worker's threads. It has three, and a few more with a GPU; 64 leave room for a driver's.
const THREADS: u32 = 64;

/// File systems that keep files in memory, by the kernel's magic numbers: tmpfs, ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Makes the cgroups of workers.
#[derive(Debug, Default)]
pub(super) struct Confinement {
    place: Option<CgroupParent>,
    /// Why the last worker got no cgroup.
    missing: Option<String>,
}

#[derive(Debug)]
struct CgroupParent {
    leaves: Arc<Leaves>,
    quota: LeafQuota,
    budget: MemoryBudget,
}

/// The cgroup of one worker.
#[derive(Debug)]
pub(super) struct WorkerCgroup {
    pub(super) leaf: ProcessCgroup,
    budget: MemoryBudget,
}

/// The place for cgroups, or why there is none.
pub(super) type CgroupRoot = Result<Arc<Leaves>, NoCgroups>;

/// The place that this machine allows. Must be called while this process has no children.
pub(super) fn cgroup_root(mode: OsSandbox) -> CgroupRoot {
    match mode {
        OsSandbox::Off => Err(NoCgroups::Off),
        OsSandbox::Required | OsSandbox::BestEffort => Ok(Leaves::prepare()?),
    }
}

impl Confinement {
    /// Makes the cgroups for the workers of a job.
    pub(super) fn new(cgroup_root: CgroupRoot, job_dir: &JobDir, budget: MemoryBudget) -> Self {
        let leaves = match cgroup_root {
            Ok(leaves) => leaves,
            Err(reason) => return Self { place: None, missing: Some(reason.to_string()) },
        };
        // Files that a worker writes to memory count for its cgroup until they are removed, so there we set
        // no memory limit.
        let memory = (!is_in_memory(job_dir.root())).then(|| budget.total().0);
        let quota = LeafQuota { memory, threads: THREADS };
        Self { place: Some(CgroupParent { leaves, quota, budget }), missing: None }
    }

    /// Makes the cgroup of a worker that is about to start. `None` if the worker has to run without one.
    pub(super) fn worker_cgroup(&mut self, worker: WorkerId) -> Option<WorkerCgroup> {
        let CgroupParent { leaves, quota, budget } = self.place.as_ref()?;
        let leaf = leaves.leaf(&worker.to_string(), quota);
        self.missing = leaf.as_ref().err().map(ToString::to_string);
        Some(WorkerCgroup { leaf: leaf.ok()?, budget: budget.clone() })
    }

    /// The folder that contains the cgroups of workers.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.leaves.folder())
    }

    /// Why the worker that was started last has no cgroup.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

impl WorkerCgroup {
    /// The failure of a worker that has ended, if the memory limit of its cgroup killed it. Removes the
    /// cgroup.
    pub(super) fn end(self, signal: Option<i32>) -> Option<Failure> {
        let is_it = signal == Some(libc::SIGKILL) && self.leaf.was_out_of_memory();
        is_it.then(|| self.budget.ended_by_cgroup())
    }
}

fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|disk| IN_MEMORY.contains(&disk.f_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Limits;

    #[test]
    fn without_the_wall_no_cgroup_is_made() {
        let budget = MemoryBudget::new(&Limits::default(), 0, 0);
        let mut none = Confinement::new(cgroup_root(OsSandbox::Off), &JobDir::new("job"), budget);
        assert!(none.worker_cgroup(WorkerId(0)).is_none());
        assert_eq!(none.missing(), Some("os_sandbox is off"));
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
