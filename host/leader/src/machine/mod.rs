//! The leader's decisions, as a pure state machine: messages and the time go in, actions come out. No I/O, clock or
//! thread in here, so that all of it can be simulated.
//!
//! [`JobMachine`] decides for the job: retries, thresholds, the rules for failures of `init`, commits, cancellation, the
//! end. The node's machine, in the crate `node`, decides for the workers of one machine: which gets an attempt, time-outs,
//! kills, GPU leases. They speak by [`Order`](crate::protocol::Order) and [`News`](crate::protocol::News). [`Joined`] joins
//! a job's machine to its only node, by direct calls; in tests `Machine` is both machines, joined so.

pub mod job;
mod joined;
#[cfg(test)]
mod one;
mod policy;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod types;

pub use job::{JobAction, JobMachine, JobMessage, JobOutput, Settled};
pub use joined::{Joined, Obeys, Outcome};
#[cfg(test)]
use one::Machine;
pub use policy::Policy;
#[cfg(test)]
use types::{Action, Message};
