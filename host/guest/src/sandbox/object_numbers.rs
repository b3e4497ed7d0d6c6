//! What guests of deterministic jobs have seen of files: the numbers of files, and the remaining
//! entries of listings.

use std::collections::{HashMap, VecDeque};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::DirectoryEntry;

/// The maximum number of files that [`ObjectNumbers`] distinguishes.
const MAX_OBJECTS: usize = 1 << 20;

/// What an instance has seen.
#[derive(Default)]
pub(super) struct SeenObjects {
    pub(super) objects: ObjectNumbers,
    /// The remaining entries of listings, by handle. The listing of a closed handle stays until the handle
    /// number is reused.
    pub(super) listings: HashMap<u32, VecDeque<DirectoryEntry>>,
}

/// Numbers files in the order in which the guest first sees them. These numbers replace the machine's own
/// identifiers.
#[derive(Default)]
pub(super) struct ObjectNumbers(HashMap<(u64, u64), u64>);

impl ObjectNumbers {
    /// The number of the file that has this identifier on the machine.
    pub(super) fn number(&mut self, real: (u64, u64)) -> u64 {
        let next = self.0.len() as u64 + 1;
        if self.0.len() >= MAX_OBJECTS {
            return self.0.get(&real).copied().unwrap_or(u64::MAX);
        }
        *self.0.entry(real).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_in_the_order_seen() {
        let mut objects = ObjectNumbers::default();
        let numbers = [(9, 9), (1, 0), (9, 9), (0, 1)].map(|real| objects.number(real));
        assert_eq!(numbers, [1, 2, 1, 3]);
    }
}
