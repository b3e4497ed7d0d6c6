//! The leader's decisions, as a pure state machine: messages and the time go in, actions come out. It
//! has no I/O, clock or threads, so that tests can simulate it.
//!
//! [`JobMachine`] decides for the job: retries, thresholds, the rules for failures of `init`, commits,
//! cancellation and the end. The node's state machine, in the crate `node`, decides for the workers of one
//! computer: which worker gets an attempt, time-outs, kills and GPU leases. The two machines communicate by
//! [`Order`](crate::protocol::Order) and [`NodeNews`](crate::protocol::NodeNews). [`ConnectedJob`] connects a
//! job's state machine to its only node, by direct calls. In tests, `LocalMachine` consists of both
//! state machines, connected in this way.

mod connected_job;
pub mod job;
#[cfg(test)]
mod local_machine;
mod policy;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod types;

pub use connected_job::{ConnectedJob, ConnectedOutcome, OrderTarget};
pub use job::{JobAction, JobMachine, JobMessage, JobOutput, SettledMiniBatch};
#[cfg(test)]
use local_machine::LocalMachine;
pub use policy::RetryPolicy;
#[cfg(test)]
use types::{MachineAction, MachineMessage};
