//! Reports the sums of a running job's receipts now and then.

use super::commit::Committer;
use crate::event::EventKind;
use crate::model::ReceiptTotals;
use std::time::{Duration, Instant};

/// How often the sums are reported at most.
const INTERVAL: Duration = Duration::from_secs(5);

/// When the sums were last reported.
#[derive(Debug)]
pub(super) struct ReceiptReports(Instant);

impl ReceiptReports {
    /// The job began at this time.
    pub(super) fn new(began: Instant) -> Self {
        Self(began)
    }

    /// The report, if one is due.
    pub(super) fn due(&mut self, committer: &Committer) -> Option<EventKind> {
        if self.0.elapsed() < INTERVAL {
            return None;
        }
        self.0 = Instant::now();
        Some(EventKind::Receipts { totals: sums(committer)? })
    }
}

/// The sums of all receipts in the journal. `None` if there are none.
pub(super) fn sums(committer: &Committer) -> Option<Box<ReceiptTotals>> {
    let sums = committer.receipts();
    (sums.receipts() > 0).then(|| Box::new(sums))
}
