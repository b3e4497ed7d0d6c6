//! Resources as lists of numbers, so that the innermost loops need no names.

use crate::names::GpuKind;
use crate::resources::{Resource, Resources};
use crate::state::State;
use std::collections::BTreeSet;

/// A whole resource of the cluster, in the unit in which the plan counts shares.
pub(super) const WHOLE: u64 = 1 << 40;

/// The index of workers in a list of resources.
pub(super) const WORKERS: usize = 0;
/// The index of the first kind of GPU.
const FIRST_KIND: usize = 3;

/// The order of resources in a list: workers, memory, CPU, and then each kind of GPU.
#[derive(Debug)]
pub(super) struct Dimensions {
    kinds: Vec<GpuKind>,
}

impl Dimensions {
    /// The resources that the cluster has or that a job needs.
    pub(super) fn of_state(state: &State) -> Self {
        let mut kinds: BTreeSet<&GpuKind> = state.capacity.gpus.keys().collect();
        for job in state.jobs.values().filter(|job| !job.slot.gpus.is_empty()) {
            kinds.extend(job.slot.gpus.keys());
        }
        Self { kinds: kinds.into_iter().cloned().collect() }
    }

    pub(super) fn count(&self) -> usize {
        FIRST_KIND + self.kinds.len()
    }

    pub(super) fn is_gpu(index: usize) -> bool {
        index >= FIRST_KIND
    }

    pub(super) fn resource(&self, index: usize) -> Resource {
        match index {
            0 => Resource::Workers,
            1 => Resource::Memory,
            2 => Resource::Cpu,
            _ => Resource::Gpu(self.kinds[index - FIRST_KIND].clone()),
        }
    }

    /// The index of a resource. `None` if the cluster does not have it and no job needs it.
    pub(super) fn index(&self, resource: &Resource) -> Option<usize> {
        match resource {
            Resource::Workers => Some(0),
            Resource::Memory => Some(1),
            Resource::Cpu => Some(2),
            Resource::Gpu(kind) => self.kinds.binary_search(kind).ok().map(|at| at + FIRST_KIND),
        }
    }

    pub(super) fn list(&self, resources: &Resources) -> Vec<u64> {
        (0..self.count()).map(|index| resources.amount(&self.resource(index))).collect()
    }

    pub(super) fn resources(&self, list: &[u64]) -> Resources {
        let gpus = self.kinds.iter().cloned().zip(list[FIRST_KIND..].iter().copied());
        Resources {
            workers: list[0],
            memory: list[1],
            cpu: list[2],
            gpus: gpus.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Adds what this many workers need.
pub(super) fn add(sums: &mut [u64], need: &[u64], workers: u64) {
    for (sum, need) in sums.iter_mut().zip(need) {
        *sum = sum.saturating_add(need.saturating_mul(workers));
    }
}

/// Subtracts what this many workers need, down to 0.
pub(super) fn subtract(amounts: &mut [u64], need: &[u64], workers: u64) {
    for (amount, need) in amounts.iter_mut().zip(need) {
        *amount = amount.saturating_sub(need.saturating_mul(workers));
    }
}

/// The first resource of which `used` and the needs of this many workers exceed the limits.
pub(super) fn exceeded(used: &[u64], need: &[u64], workers: u64, limits: &[u64]) -> Option<usize> {
    let sums = used.iter().zip(need).zip(limits);
    let exceeds = |((used, need), limit): ((&u64, &u64), &u64)| {
        *need > 0 && used.saturating_add(need.saturating_mul(workers)) > *limit
    };
    sums.map(exceeds).position(|exceeds| exceeds)
}

/// How many workers fit, at most `wanted`.
pub(super) fn fitting(used: &[u64], need: &[u64], wanted: u64, limits: &[u64]) -> u64 {
    let sums = used.iter().zip(need).zip(limits);
    let counts =
        sums.filter_map(|((used, need), limit)| limit.saturating_sub(*used).checked_div(*need));
    counts.fold(wanted, u64::min)
}
