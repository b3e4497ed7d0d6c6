//! What leader, planner and workers say to each other, and how it is framed. Versioned: both sides
//! are the same program, but a stale one must be refused, not misread. Imports `model` only.
//!
//! What comes from a worker or a planner is untrusted: lengths are bounded before anything is
//! allocated and decoding is strict, so a malformed frame is a dead child and no more.

mod bounds;
mod frame;
mod message;

pub use frame::{FrameBuffer, FrameError, MAX_FRAME, decode, encode, read_frame};
pub use message::{
    Assignment, Cut, FromPlanner, FromWorker, PROTOCOL_VERSION, PlanRequest, Setup, ToWorker,
};
