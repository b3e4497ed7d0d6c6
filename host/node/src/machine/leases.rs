//! Which worker has which GPU (prs-semantics G1, G2).

use crate::model::WorkerId;
use std::collections::BTreeMap;
use std::time::Duration;

/// GPUs, by index, and who holds them.
#[derive(Debug)]
pub(super) struct Leases {
    gpus: Vec<u32>,
    taken: BTreeMap<u32, WorkerId>,
    /// Workers that are gone and whose GPUs are not free, and until when their places stay empty.
    kept: BTreeMap<WorkerId, Duration>,
}

impl Leases {
    /// `gpus` are their indices.
    pub(super) fn new(mut gpus: Vec<u32>) -> Self {
        gpus.sort_unstable();
        Self { gpus, taken: BTreeMap::new(), kept: BTreeMap::new() }
    }

    /// The lowest free index, this worker's from now on; none if all are taken.
    pub(super) fn take(&mut self, worker: WorkerId) -> Option<u32> {
        let index = *self.gpus.iter().find(|index| !self.taken.contains_key(index))?;
        self.taken.insert(index, worker);
        Some(index)
    }

    /// The index that a worker holds.
    pub(super) fn of(&self, worker: WorkerId) -> Option<u32> {
        self.taken.iter().find(|(_, holder)| **holder == worker).map(|(index, _)| *index)
    }

    /// To be called when a worker is gone and its GPU is free, not when it is killed: a process that still
    /// ends may still use its GPU.
    pub(super) fn release(&mut self, worker: WorkerId) {
        self.taken.retain(|_, holder| *holder != worker);
        self.kept.remove(&worker);
    }

    /// To be called when a worker is gone and its GPU is not free.
    pub(super) fn keep(&mut self, worker: WorkerId, until: Duration) {
        if self.of(worker).is_some() {
            self.kept.insert(worker, until);
        }
    }

    /// Whether a worker is gone and its GPU is not free.
    pub(super) fn is_kept(&self, worker: WorkerId) -> bool {
        self.kept.contains_key(&worker)
    }

    /// How many of so many workers, of those that find no GPU free, wait for one of a worker that is gone.
    pub(super) fn awaited(&self, workers: usize, now: Duration) -> usize {
        let free = self.gpus.len().saturating_sub(self.taken.len());
        let kept = self.kept.values().filter(|until| now < **until).count();
        kept.min(workers.saturating_sub(free))
    }

    /// When it is waited for one GPU less.
    pub(super) fn next_end(&self, now: Duration) -> Option<Duration> {
        self.kept.values().copied().filter(|until| now < *until).min()
    }

    /// All that are held.
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, WorkerId)> {
        self.taken.iter().map(|(index, holder)| (*index, *holder))
    }
}
