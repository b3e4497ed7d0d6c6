//! What a reporter remembers of each worker, for as long as it may be needed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An attempt that succeeded is told when it is committed; by then its worker may have ended.
const LINGER: Duration = Duration::from_secs(10);

/// Something for each worker, by name. What belongs to workers that are gone is given back by
/// [`PerWorker::sweep`], so that a job that loses worker after worker needs no more memory.
pub(super) struct PerWorker<T>(BTreeMap<String, Slot<T>>);

struct Slot<T> {
    value: T,
    gone: Option<Instant>,
}

impl<T> PerWorker<T> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// What there is for this worker, made if there is nothing.
    pub(super) fn of(&mut self, worker: &str, make: impl FnOnce() -> T) -> &mut T {
        if !self.0.contains_key(worker) {
            self.0.insert(worker.to_owned(), Slot { value: make(), gone: None });
        }
        // Just looked up or put in; a plain `entry` would copy the name at each call.
        let slot = self.0.get_mut(worker).expect("the worker is in the map");
        &mut slot.value
    }

    /// The worker ended.
    pub(super) fn gone(&mut self, worker: &str) {
        if let Some(slot) = self.0.get_mut(worker) {
            slot.gone = Some(Instant::now());
        }
    }

    /// Takes out what belongs to workers that ended a while ago, or to all, sorted by name.
    pub(super) fn sweep(&mut self, all: bool) -> Vec<(String, T)> {
        let old = |slot: &mut Slot<T>| all || slot.gone.is_some_and(|at| at.elapsed() >= LINGER);
        let taken = self.0.extract_if(.., |_, slot| old(slot));
        let mut taken: Vec<_> = taken.map(|(name, slot)| (name, slot.value)).collect();
        taken.sort_by(|a, b| by_number(&a.0, &b.0));
        taken
    }

    /// All that is there, sorted by name.
    pub(super) fn sorted(&self) -> Vec<(&str, &T)> {
        let mut all: Vec<_> =
            self.0.iter().map(|(name, slot)| (name.as_str(), &slot.value)).collect();
        all.sort_by(|a, b| by_number(a.0, b.0));
        all
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().map(|slot| &mut slot.value)
    }
}

/// `process999` before `process1000`.
fn by_number(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_lingers_and_is_given_back() {
        let mut all = PerWorker::new();
        for name in ["process1000", "process001", "process002"] {
            *all.of(name, || 0) += 1;
            *all.of(name, || 0) += 1;
        }
        all.gone("process001");
        assert!(all.sweep(false).is_empty());
        all.0.get_mut("process001").unwrap().gone = Instant::now().checked_sub(LINGER);
        assert_eq!(all.sweep(false), [("process001".to_owned(), 2)]);
        assert_eq!(all.sorted(), [("process002", &2), ("process1000", &2)]);
        assert_eq!(all.sweep(true).len(), 2);
    }
}
