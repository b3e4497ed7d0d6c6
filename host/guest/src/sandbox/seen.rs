//! What deterministic guests have seen of files.

use std::collections::{HashMap, VecDeque};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::DirectoryEntry;

/// Files that are told apart by [`Objects`].
const OBJECTS: usize = 1 << 20;

/// What an instance has seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) objects: Objects,
    /// What is left of listings, by their handles. One that a guest gave up stays until its handle
    /// is used again.
    pub(super) listings: HashMap<u32, VecDeque<DirectoryEntry>>,
}

/// Files by numbers, in the order in which the guest met them, for the numbers by which the machine
/// knows them.
#[derive(Default)]
pub(super) struct Objects(HashMap<(u64, u64), u64>);

impl Objects {
    pub(super) fn number(&mut self, real: (u64, u64)) -> u64 {
        let next = self.0.len() as u64 + 1;
        if self.0.len() >= OBJECTS {
            return self.0.get(&real).copied().unwrap_or(u64::MAX);
        }
        *self.0.entry(real).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_as_they_are_met() {
        let mut objects = Objects::default();
        let numbers = [(9, 9), (1, 0), (9, 9), (0, 1)].map(|real| objects.number(real));
        assert_eq!(numbers, [1, 2, 1, 3]);
    }
}
