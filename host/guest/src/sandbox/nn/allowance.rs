//! The limit on a guest's tensors.

use crate::model::ByteSize;
use crate::sandbox::error::TensorsFull;

/// Counts the bytes of a guest's tensors in the host against `limits.tensors`.
pub(super) struct Allowance {
    limit: ByteSize,
    held: u64,
}

impl Allowance {
    pub(super) fn new(limit: ByteSize) -> Self {
        Self { limit, held: 0 }
    }

    /// Adds bytes to the count. `what` says what needs the bytes, for the error.
    ///
    /// # Errors
    /// If the total would exceed the limit. The bytes are then not counted.
    pub(super) fn charge(&mut self, bytes: u64, what: &'static str) -> Result<(), TensorsFull> {
        match self.held.checked_add(bytes) {
            Some(held) if held <= self.limit.0 => {
                self.held = held;
                Ok(())
            }
            _ => {
                let limit = self.limit;
                let held = ByteSize(self.held);
                let more = ByteSize(bytes);
                Err(TensorsFull { limit, held, what, more })
            }
        }
    }

    /// The bytes that are counted now.
    #[cfg(all(test, feature = "inference"))]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Subtracts bytes from the count.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }
}
