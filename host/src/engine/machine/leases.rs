//! Which worker has which GPU (prs-semantics G1, G2).

use crate::model::WorkerId;
use std::collections::BTreeMap;

/// GPUs, by index, and who holds them.
#[derive(Debug)]
pub(super) struct Leases {
    gpus: Vec<u32>,
    taken: BTreeMap<u32, WorkerId>,
}

impl Leases {
    /// `gpus` are their indices.
    pub(super) fn new(mut gpus: Vec<u32>) -> Self {
        gpus.sort_unstable();
        Self { gpus, taken: BTreeMap::new() }
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
    }

    /// All that are held.
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, WorkerId)> {
        self.taken.iter().map(|(index, holder)| (*index, *holder))
    }
}
