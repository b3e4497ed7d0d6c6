//! What earlier runs of a job have completed.

use super::{ItemCounts, MiniBatchId};

/// A set of mini-batches, with one bit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MiniBatchSet(Vec<u64>);

impl MiniBatchSet {
    /// Adds a mini-batch.
    pub fn insert(&mut self, id: MiniBatchId) {
        let (word, bit) = Self::word_and_bit(id);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    /// Whether the set contains a mini-batch.
    pub fn contains(&self, id: MiniBatchId) -> bool {
        let (word, bit) = Self::word_and_bit(id);
        self.0.get(word).is_some_and(|found| found & bit != 0)
    }

    /// The index of the word with the bit of a mini-batch, and that bit.
    fn word_and_bit(id: MiniBatchId) -> (usize, u64) {
        // Ids have no gaps, so a plan that fits into memory never has an id that is too large here.
        (usize::try_from(id.0 / 64).unwrap_or(usize::MAX), 1 << (id.0 % 64))
    }
}

/// The contents of the journal when a job is resumed. For a new job, all counts are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Mini-batches that succeeded or failed for good.
    pub finished: MiniBatchSet,
    /// How many succeeded.
    pub succeeded: u64,
    /// How many failed for good.
    pub failed: u64,
    /// How many of the succeeded mini-batches returned fewer rows than they had items.
    pub short: u64,
    /// Items of all mini-batches that ended.
    pub items: ItemCounts,
    /// Lines in the output file, without its header.
    pub rows: u64,
    /// The first worker number that was never used.
    pub next_worker: u32,
    /// Whether a worker has ended normally, so the files of `init` and `shutdown` are present.
    pub has_shut_down: bool,
}

impl Restored {
    /// How many mini-batches ended.
    pub fn ended(&self) -> u64 {
        self.succeeded + self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_was_inserted() {
        let mut set = MiniBatchSet::default();
        for id in [0, 63, 64, 1000] {
            assert!(!set.contains(MiniBatchId(id)));
            set.insert(MiniBatchId(id));
            assert!(set.contains(MiniBatchId(id)));
        }
        assert!(!set.contains(MiniBatchId(1)) && !set.contains(MiniBatchId(1 << 40)));
    }
}
