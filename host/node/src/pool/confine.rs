//! Cgroups of workers, where there are any.

use super::error::NoCgroups;
use crate::model::MemoryBudget;
use crate::model::{Failure, JobDir, OsSandbox, WorkerId};
use crate::wall::{Leaf, Leaves, Quota};
use rustix::fs::statfs;
use std::path::Path;
use std::sync::Arc;

/// Threads of a worker. It has three, and a few more with a GPU; 64 leave room for a driver's.
const THREADS: u32 = 64;

/// File systems whose files are memory, by the numbers that the kernel has for them: tmpfs, ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Where workers are put.
#[derive(Debug, Default)]
pub(super) struct Confinement {
    place: Option<Place>,
    /// Why a worker was put nowhere.
    missing: Option<String>,
}

#[derive(Debug)]
struct Place {
    leaves: Arc<Leaves>,
    quota: Quota,
    budget: MemoryBudget,
}

/// The cgroup of one worker.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) leaf: Leaf,
    budget: MemoryBudget,
}

/// The place for cgroups, or why there is none.
pub(super) type Room = Result<Arc<Leaves>, NoCgroups>;

/// What this machine allows. To be called while this process has no children.
pub(super) fn room(mode: OsSandbox) -> Room {
    match mode {
        OsSandbox::Off => Err(NoCgroups::Off),
        OsSandbox::Required | OsSandbox::BestEffort => Ok(Leaves::prepare()?),
    }
}

impl Confinement {
    /// For the workers of a job.
    pub(super) fn new(room: Room, job_dir: &JobDir, budget: MemoryBudget) -> Self {
        let leaves = match room {
            Ok(leaves) => leaves,
            Err(reason) => return Self { place: None, missing: Some(reason.to_string()) },
        };
        // Files that a worker writes there are memory of its cgroup, until they are removed.
        let memory = (!is_in_memory(job_dir.root())).then(|| budget.total().0);
        let quota = Quota { memory, threads: THREADS };
        Self { place: Some(Place { leaves, quota, budget }), missing: None }
    }

    /// The cgroup of a worker that is about to start; none if it has to go without.
    pub(super) fn cell(&mut self, worker: WorkerId) -> Option<Cell> {
        let Place { leaves, quota, budget } = self.place.as_ref()?;
        let leaf = leaves.leaf(&worker.to_string(), quota);
        self.missing = leaf.as_ref().err().map(ToString::to_string);
        Some(Cell { leaf: leaf.ok()?, budget: budget.clone() })
    }

    /// The folder that the cgroups of workers are made in.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| place.leaves.folder())
    }

    /// Why the worker that was started last has none.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

impl Cell {
    /// What a worker did that is gone by now, if the limit of its cgroup ended it. The cgroup goes, too.
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
    fn without_the_wall_there_is_no_cgroup() {
        let budget = MemoryBudget::new(&Limits::default(), 0, 0);
        let mut none = Confinement::new(room(OsSandbox::Off), &JobDir::new("job"), budget);
        assert!(none.cell(WorkerId(0)).is_none());
        assert_eq!(none.missing(), Some("os_sandbox is off"));
    }

    #[test]
    fn files_in_memory_are_known() {
        assert!(!is_in_memory(Path::new("/proc")) && !is_in_memory(Path::new("/not there")));
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        match mounts.lines().any(|line| line.starts_with("tmpfs /dev/shm tmpfs ")) {
            true => assert!(is_in_memory(Path::new("/dev/shm"))),
            false => eprintln!("not tried: /dev/shm is no tmpfs here"),
        }
    }
}
