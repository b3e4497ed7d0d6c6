//! A node's decisions, as a pure state machine: which worker gets an attempt, when one is late, killed or replaced,
//! which has which GPU. It works without the leader's help: a leader that is away switches no time-out off. It decides
//! no retry, no threshold and no commit.
//!
//! [`NodeMachine::handle`] takes what happened on the node, [`NodeMachine::obey`] what the leader wants. Both return
//! what to do and what to report.

mod deadlines;
mod exits;
mod grants;
mod init;
mod leases;
mod standing;
mod state;
mod types;
mod worker;
mod workers;

pub use state::NodeMachine;
pub use types::{NodeAction, NodeMessage, NodeOutput};
