//! The leader's decisions for a whole job, as a pure state machine: retries, thresholds, the rules for
//! failures of `init`, grants to nodes, commits, cancellation and the end. A node decides for
//! its own workers, and detects when one of them is late (see the crate `node`).
//!
//! [`JobMachine::handle`] takes a message, and [`JobMachine::decide`] makes decisions based on all messages
//! so far. Both methods return actions for the leader and orders for nodes.

mod assign;
mod attempt_times;
mod attempts;
mod continued;
mod deadlines;
mod ending;
mod fetch_trouble;
mod granted;
mod init;
mod limits;
mod news;
mod node;
mod nodes;
mod performer;
mod queue;
mod receipts;
mod state;
mod thresholds;
mod twins;
mod types;
mod unfetched;
mod unknown_keys;
mod unplanned;

pub use state::JobMachine;
pub use types::{JobAction, JobMessage, JobOutput, SettledMiniBatch};
