//! The functions that fuzzers call. Each accepts any bytes, and panics if the code under test does something
//! wrong.
//!
//! The targets in `fuzz/` call these functions. The tests here need no fuzzer: they replay the corpora, and
//! the inputs that [`Mutator`] makes from the corpora. No program depends on this crate.

mod columns;
mod frames;
mod jobs;
mod mutate;
mod results;
mod rows;
mod scratch;
mod stores;
mod streams;
mod tables;
#[cfg(test)]
mod tests;

pub use columns::columns;
pub use frames::frames;
pub use jobs::jobs;
pub use mutate::Mutator;
pub use results::results;
pub use rows::rows;
pub use sandmill_leader::fuzz_recovery as recovery;
pub use stores::stores;
pub use streams::streams;
pub use tables::tables;
