//! A node's decisions, as a pure state machine: which worker gets an attempt, which worker has which GPU, and
//! when a worker is late, killed or replaced. It works without the leader: time-outs hold even while the
//! leader does not respond. It does not decide about retries, thresholds or commits.
//!
//! [`NodeMachine::handle`] takes what happened on the node, [`NodeMachine::obey`] the orders of the leader.
//! Both return what to do and what to report.

mod continuing;
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
