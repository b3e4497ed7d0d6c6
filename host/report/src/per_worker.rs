//! A map with a reporter's value for each worker. The value is kept as long as the reporter may need it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the value of an ended worker is kept. A success is reported only when its rows are committed, and
/// the worker may have ended before that.
const KEEP_ENDED: Duration = Duration::from_secs(10);

/// A value for each worker, by name. [`PerWorker::take_ended`] returns the values of workers that have ended,
/// so that memory stays bounded even if a job loses many workers.
pub(super) struct PerWorker<T> {
    slots: BTreeMap<String, WorkerSlot<T>>,
    /// How many of the workers have ended. A job may have thousands that have not.
    ended: usize,
}

struct WorkerSlot<T> {
    value: T,
    ended: Option<Instant>,
}

impl<T> PerWorker<T> {
    pub(super) fn new() -> Self {
        Self { slots: BTreeMap::new(), ended: 0 }
    }

    /// The value of this worker, created if there is none.
    pub(super) fn get_or_insert(&mut self, worker: &str, make: impl FnOnce() -> T) -> &mut T {
        if !self.slots.contains_key(worker) {
            self.slots.insert(worker.to_owned(), WorkerSlot { value: make(), ended: None });
        }
        // The worker was just found or inserted. `entry` would copy the name at each call.
        let slot = self.slots.get_mut(worker).expect("the worker is in the map");
        &mut slot.value
    }

    /// Notes that the worker has ended.
    pub(super) fn mark_ended(&mut self, worker: &str) {
        if let Some(slot) = self.slots.get_mut(worker) {
            let before = slot.ended.replace(Instant::now());
            self.ended += usize::from(before.is_none());
        }
    }

    /// Removes and returns the values of the workers that ended a while ago, or of all workers, sorted by
    /// name.
    pub(super) fn take_ended(&mut self, all: bool) -> Vec<(String, T)> {
        if self.ended == 0 && !all {
            return Vec::new();
        }
        let old = |slot: &mut WorkerSlot<T>| {
            all || slot.ended.is_some_and(|at| at.elapsed() >= KEEP_ENDED)
        };
        let removed: Vec<_> = self.slots.extract_if(.., |_, slot| old(slot)).collect();
        self.ended -= removed.iter().filter(|(_, slot)| slot.ended.is_some()).count();
        let mut removed: Vec<_> =
            removed.into_iter().map(|(name, slot)| (name, slot.value)).collect();
        removed.sort_by(|a, b| by_number(&a.0, &b.0));
        removed
    }

    /// All values, sorted by name.
    pub(super) fn sorted(&self) -> Vec<(&str, &T)> {
        let mut all: Vec<_> =
            self.slots.iter().map(|(name, slot)| (name.as_str(), &slot.value)).collect();
        all.sort_by(|a, b| by_number(a.0, b.0));
        all
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.values_mut().map(|slot| &mut slot.value)
    }
}

/// Sorts `process999` before `process1000`.
fn by_number(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_workers_are_kept_for_a_while() {
        let mut all = PerWorker::new();
        for name in ["process1000", "process001", "process002"] {
            *all.get_or_insert(name, || 0) += 1;
            *all.get_or_insert(name, || 0) += 1;
        }
        all.mark_ended("process001");
        assert!(all.take_ended(false).is_empty());
        all.slots.get_mut("process001").unwrap().ended = Instant::now().checked_sub(KEEP_ENDED);
        assert_eq!(all.take_ended(false), [("process001".to_owned(), 2)]);
        assert_eq!(all.sorted(), [("process002", &2), ("process1000", &2)]);
        assert_eq!(all.take_ended(true).len(), 2);
    }
}
