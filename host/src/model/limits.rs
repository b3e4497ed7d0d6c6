//! What one instance of an entry script may use.

use super::ByteSize;
use serde::{Deserialize, Serialize};

/// The budget of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// All linear memories and tables of the instance together.
    pub memory: ByteSize,
    /// Fuel for each single call of `init`, `run` and `shutdown`; none means not measured, which
    /// makes guest code faster.
    pub fuel: Option<u64>,
    /// The largest file that `host.read` hands over.
    pub read: ByteSize,
    /// Result bytes of one call of `run`.
    pub results: ByteSize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: ByteSize(1 << 30),
            fuel: None,
            read: ByteSize(512 << 20),
            results: ByteSize(256 << 20),
        }
    }
}
