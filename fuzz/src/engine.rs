//! Of the leader, the committer alone.

#[path = "../../host/src/engine/commit/mod.rs"]
mod commit;

pub use commit::fuzz_recovery;
