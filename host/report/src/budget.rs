//! The byte budget of the reports that have a line for each attempt or item (`limits.reports`).

use super::phrases::counted;
use crate::model::ByteSize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The budget that the reports of a job share. A clone is another handle to the same budget.
#[derive(Clone, Debug)]
pub struct ReportBudget(Arc<BudgetCounts>);

#[derive(Debug)]
struct BudgetCounts {
    /// The maximum number of bytes that may be used.
    limit: u64,
    used: AtomicU64,
    left_out: AtomicU64,
}

impl Default for ReportBudget {
    fn default() -> Self {
        Self::new(ByteSize(u64::MAX))
    }
}

impl ReportBudget {
    /// A budget of this many bytes.
    pub fn new(limit: ByteSize) -> Self {
        let used = AtomicU64::new(0);
        let left_out = AtomicU64::new(0);
        Self(Arc::new(BudgetCounts { limit: limit.0, used, left_out }))
    }

    /// A separate budget of the same size.
    pub(super) fn same_size(&self) -> Self {
        Self::new(ByteSize(self.0.limit))
    }

    /// Takes the bytes of a line from the budget. Returns whether there was room; otherwise, the line is
    /// counted as left out.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let BudgetCounts { limit, used, .. } = &*self.0;
        let bytes = bytes as u64;
        let after = used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if after > *limit {
            // Leave out all later lines too, even if a shorter one would fit, because the report must not
            // have gaps.
            used.store(*limit, Ordering::Relaxed);
            self.leave_out();
        }
        after <= *limit
    }

    /// Counts a line that is left out.
    pub(super) fn leave_out(&self) {
        self.0.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that an earlier run of the job wrote.
    pub(super) fn count_existing(&self, bytes: u64) {
        let used = self.0.used.load(Ordering::Relaxed).saturating_add(bytes);
        self.0.used.store(used.min(self.0.limit), Ordering::Relaxed);
    }

    /// A sentence about what was left out; `None` if nothing was.
    pub(super) fn left_out_text(&self) -> Option<String> {
        let left_out = self.0.left_out.load(Ordering::Relaxed);
        (left_out > 0).then(|| {
            format!(
                "{} of the logs left out, because limits.reports ({}) was reached; output and journal are \
                 complete",
                counted(left_out, "part"),
                ByteSize(self.0.limit)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_lines_are_counted() {
        let budget = ReportBudget::new(ByteSize(100));
        let other = budget.clone();
        assert!(budget.try_take(60) && other.try_take(40) && budget.left_out_text().is_none());
        assert!(!budget.try_take(1) && !other.try_take(1000) && !other.try_take(1));
        assert!(
            budget
                .left_out_text()
                .unwrap()
                .starts_with("3 parts of the logs left out, because limits.reports (100")
        );
        let resumed = ReportBudget::new(ByteSize(100));
        resumed.count_existing(99);
        assert!(resumed.try_take(1) && !resumed.try_take(1));
        assert!(ReportBudget::default().try_take(1 << 40));
    }
}
