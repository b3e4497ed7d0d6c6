//! The memory of a worker process.

use super::{ByteSize, Failure, FailureKind, Limits};

/// The private memory that one worker process may hold.
///
/// Pages of files do not count, because all workers map the same compiled entry script and share its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Memory of the guest's instance.
    pub guest: ByteSize,
    /// Memory that the worker process may hold outside of the guest and of inference, in bytes.
    pub host: u64,
    /// Models and tensors, in bytes.
    pub inference: u64,
}

impl MemoryBudget {
    /// Bytes that every worker may hold for other purposes: the program itself, the allocator's reserves, and
    /// the growth between two measurements.
    const MARGIN_BYTES: u64 = 256 << 20;
    /// A worker holds its results twice: as copied from the guest, and as lines.
    const COPIES_OF_RESULTS: u64 = 2;
    /// The most bytes of memory for a byte of CSV. A one-digit number with its comma becomes eight bytes in a
    /// column, and eight more in the copy for the guest. Buffers double when they grow.
    const BYTES_PER_CSV_BYTE: u64 = 16;
    /// A table that fits into `limits.memory` takes at most this many times that limit: twice for its
    /// columns, whose buffers double when they grow, and once for the guest's copy. The entry script cannot
    /// use a table that does not fit.
    const TABLES_PER_LIMIT: u64 = 3;
    /// The most bytes of memory for a byte of text before it becomes columns: the text itself, copies made
    /// while the text is split into records, the positions of fields, and columns that the job does
    /// not use.
    const BYTES_PER_TEXT_BYTE: u64 = 6;

    /// The budget of a worker whose guest has these limits. `mini_batch_bytes`: the bytes of a table in one
    /// mini-batch, or 0 for files, which the guest reads itself. `inference`: bytes for models and tensors.
    pub fn new(limits: &Limits, mini_batch_bytes: u64, inference: u64) -> Self {
        let columns = limits.memory.0.saturating_mul(Self::TABLES_PER_LIMIT);
        let most_that_fits =
            mini_batch_bytes.saturating_mul(Self::BYTES_PER_TEXT_BYTE).saturating_add(columns);
        let host = [
            limits.results.0.saturating_mul(Self::COPIES_OF_RESULTS),
            limits.read.0,
            mini_batch_bytes.saturating_mul(Self::BYTES_PER_CSV_BYTE).min(most_that_fits),
            Self::MARGIN_BYTES,
        ];
        let host = host.into_iter().fold(0, u64::saturating_add);
        Self { guest: limits.memory, host, inference }
    }

    /// The whole budget, in bytes.
    pub fn total(&self) -> ByteSize {
        ByteSize(self.guest.0.saturating_add(self.host).saturating_add(self.inference))
    }

    /// The failure of a worker that holds `held` bytes. `None` if that is within the budget.
    pub fn judge(&self, held: u64) -> Option<Failure> {
        if held <= self.total().0 {
            return None;
        }
        let held = ByteSize(held).rounded();
        Some(self.overrun(&format!("held {held} of memory, more than"), "it was killed"))
    }

    /// The failure of a worker that the kernel killed at the memory limit of its cgroup. That limit
    /// equals this budget.
    pub fn ended_by_cgroup(&self) -> Failure {
        self.overrun("needed more memory than", "the limit of its cgroup ended it")
    }

    fn overrun(&self, excess: &str, end: &str) -> Failure {
        let budget = self.total().rounded();
        let host = ByteSize(self.host).rounded();
        // A user without models need not read about them.
        let (inference_part, inference_key) = match self.inference {
            0 => (String::new(), ""),
            bytes => {
                let bytes = ByteSize(bytes).rounded();
                (format!(", and {bytes} for models and tensors"), " or limits.tensors")
            }
        };
        let separator = if inference_key.is_empty() { " or" } else { "," };
        let message = format!(
            "the worker process {excess} its budget of {budget} (limits.memory {} and {host} for \
             results, reading and decoding{inference_part}); {end}. Make mini_batch_size smaller, or raise \
             limits.memory{separator} limits.results{inference_key}",
            self.guest
        );
        Failure::new(FailureKind::OutOfMemory, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_follows_the_limits() {
        let budget = MemoryBudget::new(&Limits::default(), 0, 0);
        assert_eq!(budget.total().rounded(), "2.2 GB");
        let table = MemoryBudget::new(&Limits::default(), 100 << 20, 0);
        assert_eq!(table.total().0 - budget.total().0, 1600 << 20);
        // However large a mini-batch is, its table must fit into the guest's memory, which is 1 GB.
        let large = MemoryBudget::new(&Limits::default(), 1 << 30, 0);
        assert_eq!(large.total().0 - budget.total().0, (6 + 3) << 30);
        let endless = Limits { memory: ByteSize(u64::MAX), ..Limits::default() };
        assert_eq!(MemoryBudget::new(&endless, u64::MAX, 7).total(), ByteSize(u64::MAX));
        let models = MemoryBudget::new(&Limits::default(), 0, 1 << 30);
        assert_eq!(models.total().0 - budget.total().0, 1 << 30);
        let end = "and 1 GB for models and tensors); the limit of its cgroup ended it. Make \
                   mini_batch_size smaller, or raise limits.memory, limits.results or limits.tensors";
        assert!(models.ended_by_cgroup().message.ends_with(end), "{}", models.ended_by_cgroup());
    }
}
