//! The messages between leader, nodes, planner, workers and helper processes, and their framing.
//! Messages have a version: both sides should be the same program, but one process may be older.
//! Its messages must be refused, not misread.
//!
//! This crate uses `model` and, for the messages about stores, `files`. Every crate that talks to another
//! process may use it.
//!
//! Messages from a worker or a planner are untrusted. Their lengths are checked before memory is
//! allocated, and decoding is strict. A malformed message does no harm: the leader kills its
//! sender.

mod bounds;
pub mod cancel;
pub mod control;
mod frame;
mod message;
pub mod node;
mod node_policy;
mod packet;
mod running;
pub mod store;
#[cfg(any(test, feature = "testing"))]
mod testing;

pub use bounds::PlannerQuestion;
pub use frame::{FrameBuffer, FrameError, MAX_FRAME, decode, encode, read_frame};
pub use message::{
    Assignment, CutOptions, FromPlanner, FromWorker, FromZygote, GrantedObject, Loading, MayOpen,
    ObjectsToAsk, PROTOCOL_VERSION, PlanPlace, PlanPosition, PlanRequest, ToWorker, ToZygote,
    WorkerSetup, ZygoteLimits,
};
pub use node_policy::{NodePolicy, QueuePolicy};
pub use packet::{packets, receive_packet, send_packet};
pub use running::{
    ContinuedAttempt, Grant, GrowingQueues, NodeNews, NodeReport, NodeReports, Order, OtherWorkers,
    WorkersEnd, WorkersStanding,
};
