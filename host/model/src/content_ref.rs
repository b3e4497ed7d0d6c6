//! Contents that are known by their digests.

use serde::{Deserialize, Serialize};

/// A content that is known by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentRef {
    /// The SHA-256 of the content.
    pub sha256: [u8; 32],
    /// The length in bytes.
    pub bytes: u64,
}

impl ContentRef {
    /// The SHA-256 in hexadecimal.
    pub fn hex(&self) -> String {
        super::hex(self.sha256)
    }
}
