//! The leader's decisions for a whole job, as a pure state machine: retries, thresholds, the rules for failures of
//! `init` over all nodes, what is granted to which node, commits, cancellation and the end. What single workers do, and
//! when one of them is late, is their node's affair (see the crate `node`).
//!
//! [`JobMachine::take_in`] takes what happened, and [`JobMachine::decide`] what follows from all of it. Both return what
//! to do and what to order of nodes.

mod assign;
mod attempts;
mod deadlines;
mod ending;
mod init;
mod limits;
mod news;
mod node;
mod nodes;
mod performer;
mod queue;
mod state;
mod thresholds;
mod types;
mod unknown_keys;

pub use state::JobMachine;
pub use types::{JobAction, JobMessage, JobOutput, Settled};
