//! The ids of nodes, mini-batches and workers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// A name that no other process makes: 32 hexadecimal digits. It is not secret.
pub fn random_name() -> String {
    // The standard library's hasher is seeded randomly.
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// Whether this is such a name. If so, it can be a part of a path.
pub fn is_random_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A machine that runs workers of a job, by its number within that job, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The only node of a job on one machine.
    pub const ONLY: Self = Self(0);

    /// How many numbers of workers each node has. So a worker's number determines its node.
    pub const WORKER_NUMBERS: u32 = 100_000;

    /// The number of the node's first worker. `None` if there are no such numbers.
    pub fn first_worker(self) -> Option<u32> {
        self.0.checked_mul(Self::WORKER_NUMBERS).filter(|first| *first < WorkerId::LIMIT)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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

impl WorkerId {
    /// All workers' numbers are below this one.
    pub const LIMIT: u32 = 1 << 31;

    /// The node that the worker runs on. On one machine, this is 0 for the first
    /// [`NodeId::WORKER_NUMBERS`] workers.
    pub fn node(self) -> NodeId {
        NodeId(self.0 / NodeId::WORKER_NUMBERS)
    }
}

/// Prints the name that users see: `process000`.
impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process{:03}", self.0)
    }
}
