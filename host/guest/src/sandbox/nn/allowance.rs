//! How many bytes of tensors a guest may hold.

use crate::model::ByteSize;
use crate::sandbox::error::TensorsFull;

/// The bytes of tensors that a guest holds in the host, against `limits.tensors`.
pub(super) struct Allowance {
    limit: ByteSize,
    held: u64,
}

impl Allowance {
    pub(super) fn new(limit: ByteSize) -> Self {
        Self { limit, held: 0 }
    }

    /// Counts more bytes.
    ///
    /// # Errors
    /// They are too many, and are not counted then. `what`: what takes them.
    pub(super) fn take(&mut self, bytes: u64, what: &'static str) -> Result<(), TensorsFull> {
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

    /// What is counted now.
    #[cfg(all(test, feature = "inference"))]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Counts them no more.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }
}
