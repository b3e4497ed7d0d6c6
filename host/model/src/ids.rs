//! The ids of nodes, mini-batches and workers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The id of the only node of a job on one machine. Nodes are numbered from 0.
pub const NODE_ID: &str = "0";

/// A machine that runs workers of a job, by its number within that job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A mini-batch's number within its job, from 0, in planning order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MiniBatchId(pub u64);

impl fmt::Display for MiniBatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A worker's number within its job. A replacement gets a new number, so numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub u32);

/// Prints the name that users see: `process000`.
impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process{:03}", self.0)
    }
}
