//! The invariant of receipts: each attempt that ran under a leader has exactly one receipt in the journal, unless the leader
//! is lost before its end. The job's sums are those of its receipts.

use crate::model::{AttemptReceipt, MiniBatchId, ReceiptOutcome, ReceiptTotals};
use std::collections::BTreeMap;

/// An attempt: the worker's name, the mini-batch and the number.
type Attempt = (String, MiniBatchId, u32);

/// The receipts of a simulated job.
#[derive(Debug, Default)]
pub(super) struct ReceiptBook {
    /// How often each attempt has begun under this leader.
    begun: BTreeMap<Attempt, u32>,
    /// How many receipts each attempt of this leader has.
    receipts: BTreeMap<Attempt, u32>,
    /// All receipts in the journal, of all leaders.
    journal: Vec<AttemptReceipt>,
    sums: ReceiptTotals,
    is_given_up: bool,
}

impl ReceiptBook {
    /// An attempt has entered `run`.
    pub(super) fn begin(&mut self, worker: &str, id: MiniBatchId, attempt: u32) {
        *self.begun.entry((worker.to_owned(), id, attempt)).or_default() += 1;
    }

    /// The journal has a receipt.
    pub(super) fn write(&mut self, receipt: &AttemptReceipt) {
        let AttemptReceipt { mini_batch, attempt, end, .. } = *receipt;
        let key = (receipt.worker.to_string(), mini_batch, attempt);
        let receipts = self.receipts.entry(key.clone()).or_default();
        *receipts += 1;
        // An attempt that could not be loaded has not entered `run`.
        let most = self.begun.get(&key).copied().unwrap_or(1);
        assert!(*receipts <= most, "{key:?} has {receipts} receipts: {receipt:?}");
        assert!(receipt.started_us <= receipt.ended_us, "{receipt:?}");
        let is_reason_known = match end.outcome {
            ReceiptOutcome::NodeLost | ReceiptOutcome::Discarded | ReceiptOutcome::GivenBack => {
                end.not_billable.is_some()
            }
            ReceiptOutcome::Succeeded => end.not_billable.is_none(),
            _ => true,
        };
        assert!(is_reason_known, "{receipt:?}");
        self.sums.add(end, &receipt.usage);
        self.journal.push(receipt.clone());
    }

    /// The leader is lost. Another one knows nothing of the attempts that have no receipt.
    pub(super) fn lose_leader(&mut self) {
        self.begun.clear();
        self.receipts.clear();
        self.is_given_up = false;
    }

    /// The leader has given up the uncommitted results, because the log stalls.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// The job has ended: each attempt that has begun has its receipt, unless the leader has given it up.
    pub(super) fn check_end(&self) {
        for (attempt, begun) in &self.begun {
            let receipts = self.receipts.get(attempt).copied().unwrap_or_default();
            let is_enough = receipts == *begun || self.is_given_up && receipts < *begun;
            assert!(is_enough, "{attempt:?} has {receipts} receipts, and began {begun} times");
        }
        let mut sums = ReceiptTotals::default();
        self.journal.iter().for_each(|receipt| sums.add(receipt.end, &receipt.usage));
        assert_eq!(sums, self.sums);
        assert_eq!(sums.receipts(), self.journal.len() as u64);
    }

    /// How many attempts ended in this way.
    pub(super) fn count(&self, outcome: ReceiptOutcome) -> u32 {
        self.journal.iter().filter(|receipt| receipt.end.outcome == outcome).count() as u32
    }
}
