//! What leader, nodes, planner and workers say to each other, and how it is framed. Versioned: both sides
//! are the same program, but a stale one must be refused, not misread.
//!
//! It uses `model` and, for what stores are asked, `files`; whatever talks to another process may use it.
//!
//! What comes from a worker or a planner is untrusted: lengths are bounded before anything is
//! allocated and decoding is strict, so a malformed frame is a dead child and no more.

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

pub use bounds::Question;
pub use frame::{FrameBuffer, FrameError, MAX_FRAME, decode, encode, read_frame};
pub use message::{
    Asks, Assignment, Cut, FromNursery, FromPlanner, FromWorker, Loading, MayOpen,
    PROTOCOL_VERSION, PlanRequest, Setup, Surroundings, ToNursery, ToWorker,
};
pub use node_policy::NodePolicy;
pub use packet::{packets, receive_packet, send_packet};
pub use running::{Ahead, Company, End, Grant, News, Order, Standing, Told};
