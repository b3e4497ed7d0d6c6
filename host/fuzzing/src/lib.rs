//! The functions that fuzzing runs. They accept any bytes, and panic if something is wrong.
//!
//! The targets of `fuzz/` call these functions. Without a fuzzer, the tests here replay the corpora, and
//! [`Mutator`] makes more inputs from them. No program depends on this crate.

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
