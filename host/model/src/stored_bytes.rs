//! Places of bytes in the job's store.

use serde::{Deserialize, Serialize};

/// Bytes in objects of the job's store. They begin in one object, and go on at the beginning of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoredBytes {
    /// The epoch of the leader that wrote the objects.
    pub epoch: u64,
    /// The number of the first object among those of this leader.
    pub object: u64,
    /// Where the bytes begin in the first object.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The SHA-256 of the bytes.
    pub sha256: [u8; 32],
}

/// What a mini-batch reads of the planner's files, as bytes in the job's store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSpill {
    /// The [parts](crate::MiniBatch::spill_parts) that the mini-batch reads, one after the other.
    pub parts: StoredBytes,
    /// The files with the names of the input files, in the order of
    /// [`SpilledRows::name_files`](crate::SpilledRows::name_files). `None` for unpacked texts.
    pub names: Option<[StoredBytes; 2]>,
}
