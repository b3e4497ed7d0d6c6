//! The leader's log tree in the job's store, for commands on other machines. While a job runs, its leader copies the
//! new parts of its logs there, and says every few seconds that it is alive. Nothing here decides what counts.
//!
//! - `chunk` is the format of the copied parts, and `tails` finds what is new in the log tree.
//! - `heartbeat` is what a leader says about itself.
//! - `of_nodes` are the logs of nodes on other machines that share no folder with the leader.
//! - `sharing` is the leader's thread that writes, and `fetching` is what other machines read.
//!
//! This module imports `model` and the commit log.

mod chunk;
mod fetching;
mod heartbeat;
mod of_nodes;
mod pulse;
mod sharing;
mod tails;

pub(super) use fetching::{CopiedLeader, CopyError, fetch};
pub use heartbeat::LastWord;
pub(super) use heartbeat::{leaders, read_last_word};
pub use of_nodes::{NodeLogs, write_node_logs};
pub(crate) use pulse::Pulse;
pub(super) use sharing::{LogSharing, Shared};
