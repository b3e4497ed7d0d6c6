//! The leader's decisions, as a pure state machine: [`Machine::handle`] takes a message and the
//! time, and returns actions. No I/O, clock or thread in here, so that all of it can be simulated.
//! Retries, thresholds, init-failure rules, time-outs, GPU leases, completion and cancellation live
//! here and nowhere else. Imports `model`, `event` and `protocol`'s data; only the driver may import
//! it.

mod assign;
mod attempts;
mod deadlines;
mod ending;
mod init;
mod leases;
mod limits;
mod policy;
mod queue;
mod state;
mod thresholds;
mod types;
mod unknown_keys;
mod workers;

pub(super) use super::{Action, Message, Settled};
pub(super) use policy::Policy;
pub(super) use state::Machine;
