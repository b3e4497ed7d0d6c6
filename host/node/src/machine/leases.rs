//! The leases of GPUs to workers (rules G1 and G2 in `docs/parallel-run-step.md`).

use crate::model::WorkerId;
use std::collections::BTreeMap;
use std::time::Duration;

/// The GPUs, by index, and the workers that hold them.
#[derive(Debug)]
pub(super) struct Leases {
    gpus: Vec<u32>,
    taken: BTreeMap<u32, WorkerId>,
    /// Workers that are gone, but whose GPUs are not free yet. The value says until when new
    /// workers wait for the GPU.
    kept: BTreeMap<WorkerId, Duration>,
}

impl Leases {
    /// `gpus` are the indices of the job's GPUs.
    pub(super) fn new(mut gpus: Vec<u32>) -> Self {
        gpus.sort_unstable();
        Self { gpus, taken: BTreeMap::new(), kept: BTreeMap::new() }
    }

    /// Leases the free GPU with the lowest index to this worker. `None` if all GPUs are taken.
    pub(super) fn lease(&mut self, worker: WorkerId) -> Option<u32> {
        let index = *self.gpus.iter().find(|index| !self.taken.contains_key(index))?;
        self.taken.insert(index, worker);
        Some(index)
    }

    /// The index of the GPU that a worker holds. `None` if it holds none.
    pub(super) fn gpu_of(&self, worker: WorkerId) -> Option<u32> {
        self.taken.iter().find(|(_, holder)| **holder == worker).map(|(index, _)| *index)
    }

    /// Frees the GPU of a worker. Call this when the worker is gone and its GPU is free, not when the worker
    /// is killed: a process that is ending may still use its GPU.
    pub(super) fn release(&mut self, worker: WorkerId) {
        self.taken.retain(|_, holder| *holder != worker);
        self.kept.remove(&worker);
    }

    /// Keeps the GPU of a worker that is gone, because the GPU is not free. New workers wait for it until
    /// `until`.
    pub(super) fn keep(&mut self, worker: WorkerId, until: Duration) {
        if self.gpu_of(worker).is_some() {
            self.kept.insert(worker, until);
        }
    }

    /// Whether a worker is gone but its GPU is not free.
    pub(super) fn is_kept(&self, worker: WorkerId) -> bool {
        self.kept.contains_key(&worker)
    }

    /// How many of `workers` new workers should wait for a GPU. They wait if no GPU is free for them, but the
    /// GPU of an ended worker may become free soon.
    pub(super) fn awaited(&self, workers: usize, now: Duration) -> usize {
        let free = self.gpus.len().saturating_sub(self.taken.len());
        let kept = self.kept.values().filter(|until| now < **until).count();
        kept.min(workers.saturating_sub(free))
    }

    /// When new workers stop waiting for the next [kept](Self::keep) GPU. `None` if they wait for
    /// no GPU.
    pub(super) fn next_end(&self, now: Duration) -> Option<Duration> {
        self.kept.values().copied().filter(|until| now < *until).min()
    }

    /// All leases: the index of each GPU, and the worker that holds it.
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, WorkerId)> {
        self.taken.iter().map(|(index, holder)| (*index, *holder))
    }
}
