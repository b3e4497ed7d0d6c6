//! Amounts of resources.

use crate::names::GpuKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A resource of which a cluster has a limited amount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Worker processes.
    Workers,
    /// Memory, in bytes.
    Memory,
    /// Processor time per time, in thousandths of a core.
    Cpu,
    /// GPUs of one kind.
    Gpu(GpuKind),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers => f.write_str("workers"),
            Self::Memory => f.write_str("memory"),
            Self::Cpu => f.write_str("CPU"),
            Self::Gpu(kind) => write!(f, "GPUs of kind {kind}"),
        }
    }
}

/// What one worker of a job needs: a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotSize {
    /// Memory, in bytes.
    pub memory: u64,
    /// Thousandths of a core.
    pub cpu: u64,
    /// The number of GPUs of each kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<GpuKind, u64>,
}

/// An amount of every resource: of a cluster, a machine, or what a tenant has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// The number of worker processes.
    pub workers: u64,
    /// Memory, in bytes.
    pub memory: u64,
    /// Thousandths of a core.
    pub cpu: u64,
    /// The number of GPUs of each kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<GpuKind, u64>,
}

impl Resources {
    /// Adds what this many workers need, and the workers.
    pub fn add(&mut self, slot: &SlotSize, workers: u64) {
        self.workers = self.workers.saturating_add(workers);
        self.memory = self.memory.saturating_add(slot.memory.saturating_mul(workers));
        self.cpu = self.cpu.saturating_add(slot.cpu.saturating_mul(workers));
        for (kind, count) in &slot.gpus {
            let sum = self.gpus.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(count.saturating_mul(workers));
        }
    }

    /// The amount of one resource.
    pub fn amount(&self, resource: &Resource) -> u64 {
        match resource {
            Resource::Workers => self.workers,
            Resource::Memory => self.memory,
            Resource::Cpu => self.cpu,
            Resource::Gpu(kind) => self.gpus.get(kind).copied().unwrap_or_default(),
        }
    }

    /// The largest part of a resource of `whole` that this is, in billionths. A resource that `whole` does not
    /// have counts as used completely.
    pub(crate) fn dominant_billionths(&self, whole: &Self) -> u64 {
        let plain =
            [(self.workers, whole.workers), (self.memory, whole.memory), (self.cpu, whole.cpu)];
        let gpus = self
            .gpus
            .iter()
            .map(|(kind, count)| (*count, whole.gpus.get(kind).copied().unwrap_or(0)));
        plain
            .into_iter()
            .chain(gpus)
            .map(|(part, whole)| billionths(part, whole))
            .max()
            .unwrap_or(0)
    }
}

const BILLION: u64 = 1_000_000_000;

fn billionths(part: u64, whole: u64) -> u64 {
    if part == 0 {
        return 0;
    }
    if part >= whole {
        return BILLION;
    }
    let share = u128::from(part) * u128::from(BILLION) / u128::from(whole);
    u64::try_from(share).unwrap_or(BILLION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_is_the_dominant_one() {
        let slot = SlotSize { memory: 8, cpu: 1000, gpus: [("a".into(), 1)].into() };
        let mut used = Resources::default();
        used.add(&slot, 2);
        let mut whole =
            Resources { workers: 100, memory: 64, cpu: 64_000, gpus: [("a".into(), 4)].into() };
        assert_eq!(used.dominant_billionths(&whole), BILLION / 2);
        whole.gpus.clear();
        assert_eq!(used.dominant_billionths(&whole), BILLION);
        assert_eq!(Resources::default().dominant_billionths(&whole), 0);
    }
}
