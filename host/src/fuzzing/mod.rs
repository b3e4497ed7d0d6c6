//! What fuzzing runs: functions that take any bytes and panic where something is wrong. Only in tests,
//! and in the crate `fuzz`, which compiles the few folders of this one that they need. Imports what
//! it looks at.
//!
//! `mutate` makes bytes of others where no fuzzer is at hand; the tests replay the corpora with it.

mod columns;
mod frames;
mod jobs;
mod mutate;
mod results;
mod rows;
mod scratch;
mod stores;
mod tables;
#[cfg(test)]
mod tests;

pub use crate::engine::fuzz_recovery as recovery;
pub use columns::columns;
pub use frames::frames;
pub use jobs::jobs;
pub use mutate::Mutator;
pub use results::results;
pub use rows::rows;
pub use stores::stores;
pub use tables::tables;
