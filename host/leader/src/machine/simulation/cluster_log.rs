//! The log of a simulated cluster. It outlives the leader, may stall, and may lose its replies.

use super::super::job::{JobMessage, SettledMiniBatch};
use super::dice::SimulationRandom;
use super::receipt_book::ReceiptBook;
use super::world::SimulatedCounts;
use crate::model::{Failure, FailureKind, MiniBatchId, MiniBatchSet, Restored};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The results of a job.
#[derive(Debug, Default)]
pub(super) struct SimulatedLog {
    /// Results that the leader wants to commit.
    pub(super) pending: VecDeque<SettledMiniBatch>,
    /// Results that are in the log.
    pub(super) ended: BTreeMap<MiniBatchId, SettledMiniBatch>,
    /// Results that are in the log, although the leader does not know it yet.
    unreported: Vec<MiniBatchId>,
    /// The receipts in the log.
    pub(super) receipts: ReceiptBook,
    /// The log does nothing before this time.
    stalls_until: Duration,
}

impl SimulatedLog {
    /// The leader wants to commit this.
    pub(super) fn append(&mut self, settled: SettledMiniBatch) {
        self.pending.push_back(settled);
    }

    /// Commits or rejects the first pending result. Returns the answer, unless it is lost. A leader that gets no answer
    /// reads the log, so the next answer contains what was lost.
    pub(super) fn step(
        &mut self,
        now: Duration,
        dice: &mut SimulationRandom,
    ) -> Option<JobMessage> {
        if dice.one_in(40) {
            self.stalls_until = now + Duration::from_secs(dice.below(15));
        }
        if now < self.stalls_until && !dice.calm {
            return None;
        }
        if let Some(settled) = self.pending.pop_front() {
            let id = settled.report.id;
            if settled.report.outcome.is_ok() && dice.one_in(12) {
                let failure = Failure::new(FailureKind::BadOutput, "a link");
                return Some(JobMessage::Rejected(id, failure));
            }
            self.write(settled);
        }
        if self.unreported.is_empty() || dice.one_in(8) {
            return None;
        }
        Some(JobMessage::Committed(std::mem::take(&mut self.unreported)))
    }

    fn write(&mut self, settled: SettledMiniBatch) {
        let id = settled.report.id;
        self.unreported.push(id);
        settled.receipt.iter().for_each(|receipt| self.receipts.write(receipt));
        assert!(self.ended.insert(id, settled).is_none(), "{id} ended twice");
    }

    /// The leader is lost. The requests that it has sent may still be carried out. Returns what the next leader reads.
    pub(super) fn lose_leader(&mut self, dice: &mut SimulationRandom) -> Restored {
        for _ in 0..dice.below(3) {
            if let Some(settled) = self.pending.pop_front() {
                self.write(settled);
            }
        }
        self.receipts.lose_leader();
        self.pending.clear();
        self.unreported.clear();
        self.stalls_until = Duration::ZERO;
        let mut counts = SimulatedCounts::default();
        let mut finished = MiniBatchSet::default();
        for (id, settled) in &self.ended {
            counts.add(settled);
            finished.insert(*id);
        }
        Restored {
            finished,
            succeeded: counts.succeeded,
            failed: counts.failed,
            short: counts.short,
            items: counts.items,
            rows: counts.rows,
            has_shut_down: dice.one_in(2),
            ..Restored::default()
        }
    }
}
