//! The engine's decisions, as pure state machines: messages and the time go in, actions come out. No I/O, clock or
//! thread in here, so that all of it can be simulated.
//!
//! [`JobMachine`](job::JobMachine) decides for the job: retries, thresholds, the rules for failures of `init`, commits,
//! cancellation, the end. `NodeMachine` decides for the workers of one machine: which gets an attempt,
//! time-outs, kills, GPU leases. They speak by [`Order`](crate::protocol::Order) and [`News`](crate::protocol::News).
//! In tests `Machine` is both, joined by direct calls. Imports `model`, `event` and `protocol`'s data; only the driver
//! may import it.

pub mod job;
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
#[cfg(test)]
use one::Machine;
pub use policy::Policy;
#[cfg(test)]
use types::{Action, Message};
