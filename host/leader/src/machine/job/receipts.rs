//! Receipts: each attempt that ran gets exactly one, when it leaves the machine's hands. The receipt of a mini-batch's last
//! attempt goes to the journal together with the mini-batch's end. The others go there by themselves.

use super::granted::GrantedAttempt;
use super::performer::{AttemptCost, AttemptWorker};
use super::{JobAction, JobMachine};
use crate::model::{
    AttemptReceipt, AttemptUsage, EndedBy, MiniBatchId, NodeId, NotBillable, ReceiptEnd,
    ReceiptOutcome, WorkerId,
};
use std::time::Duration;

/// How much longer than by the leader's clock an attempt may take by the clock of its node.
const CLOCK_SLACK: Duration = Duration::from_secs(1);
/// More cores than a machine has.
const MAX_CORES: u64 = 1024;
/// More bytes of memory than a machine has.
const MAX_MEMORY: u64 = 1 << 50;
/// How many times the time since the grant the GPU time may be, plus [`MAX_GPU_WAIT_US`]. The GPU time begins before the attempt,
/// and the leader does not know when.
const MAX_GPU_TIMES: u64 = 16;
/// For the time of a GPU before the first attempt of its worker, in microseconds.
const MAX_GPU_WAIT_US: u64 = 3_600_000_000;

/// The same, with the wall time, CPU time, GPU time and memory that are possible in this time.
fn bounded(usage: AttemptUsage, longest: Duration) -> AttemptUsage {
    let most_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    let most_gpu = most_us.saturating_mul(MAX_GPU_TIMES).saturating_add(MAX_GPU_WAIT_US);
    let most_byte_ms = most_us.div_ceil(1000).saturating_mul(MAX_MEMORY);
    let usage = AttemptUsage {
        wall_us: usage.wall_us.min(most_us),
        cpu_us: usage.cpu_us.min(most_us.saturating_mul(MAX_CORES)),
        memory_byte_ms: usage.memory_byte_ms.min(most_byte_ms),
        peak_memory: usage.peak_memory.min(MAX_MEMORY),
        gpu_us: usage.gpu_us.min(most_gpu),
        ..usage
    };
    usage.capped()
}

impl JobMachine {
    /// The receipt of an attempt. `None` if the attempt did not begin.
    pub(super) fn receipt(
        &self,
        by: AttemptWorker,
        (mini_batch, attempt): (MiniBatchId, u32),
        cost: &AttemptCost,
        end: ReceiptEnd,
    ) -> Option<Box<AttemptReceipt>> {
        let AttemptCost { started, ended, usage, .. } = *cost;
        let receipt = AttemptReceipt {
            mini_batch,
            attempt,
            worker: by.worker,
            node: by.node,
            started_us: self.timestamp(started).as_microsecond(),
            ended_us: self.timestamp(ended).as_microsecond(),
            end: cost.end.unwrap_or(end),
            usage,
        };
        cost.has_run.then(|| Box::new(receipt))
    }

    /// Sends the receipt of an attempt to the journal that does not end its mini-batch.
    pub(super) fn issue(
        &mut self,
        by: AttemptWorker,
        attempt: (MiniBatchId, u32),
        cost: &AttemptCost,
        end: ReceiptEnd,
    ) {
        if let Some(receipt) = self.receipt(by, attempt, cost, end) {
            self.act(JobAction::Receipt(receipt));
        }
    }

    /// The same, for an attempt whose node does not report what it used. Only the time is known. Does nothing if the
    /// attempt was not inside `run`.
    pub(super) fn issue_unmeasured(
        &mut self,
        id: (MiniBatchId, u32),
        attempt: &GrantedAttempt,
        end: ReceiptEnd,
    ) {
        let Some(worker) = attempt.runs_on else { return };
        let by = AttemptWorker { node: attempt.node, worker };
        let cost = self.unmeasured(attempt.since);
        self.issue(by, id, &cost, end);
    }

    /// The cost of an attempt that its node has measured, and that began `age` ago. A node may report anything: the
    /// numbers are bounded by what is possible since the attempt was granted.
    pub(super) fn measured(
        &mut self,
        node: NodeId,
        attempt: (MiniBatchId, u32),
        age: Duration,
        usage: AttemptUsage,
    ) -> AttemptCost {
        let now = self.now;
        let found = self.granted_attempt(node, attempt);
        let granted = found.map_or(Some(now), |found| found.granted);
        let longest = match granted {
            Some(granted) => now.saturating_sub(granted),
            // An earlier leader granted it, at an unknown time. An honest node ends it after these time-outs.
            None => {
                now.saturating_add(self.policy.load_timeout).saturating_add(self.policy.run_timeout)
            }
        };
        let longest = longest.saturating_add(CLOCK_SLACK);
        AttemptCost {
            started: now.saturating_sub(age.min(longest)),
            ended: now,
            usage: bounded(usage, longest),
            end: None,
            has_run: true,
        }
    }

    /// The cost of an attempt that has run since then, as far as the leader knows.
    pub(super) fn unmeasured(&self, since: Duration) -> AttemptCost {
        let wall = self.now.saturating_sub(since).as_micros();
        AttemptCost {
            started: since,
            ended: self.now,
            usage: AttemptUsage::of_wall(u64::try_from(wall).unwrap_or(u64::MAX)),
            end: None,
            has_run: true,
        }
    }

    /// Issues the receipt of an attempt that a node gives back.
    pub(super) fn issue_given_back(&mut self, node: NodeId, attempt: (MiniBatchId, u32)) {
        self.issue_earlier(node, attempt, None);
    }

    /// A worker reports on an attempt. If the leader knows that another worker of the node was inside `run` for the same
    /// attempt, issues the receipt of that one. This happens if an order to end an attempt, and the grant of another one
    /// with the same number, cross the news of the first.
    pub(super) fn issue_earlier(
        &mut self,
        node: NodeId,
        (id, attempt): (MiniBatchId, u32),
        worker: Option<WorkerId>,
    ) {
        let granted = self.granted.get_mut(&id);
        let granted = granted.filter(|granted| granted.pending.attempt == attempt);
        let Some(found) = granted.and_then(|granted| granted.attempt_on(node)) else { return };
        let found = *found;
        if found.runs_on != worker {
            self.issue_unmeasured((id, attempt), &found, self.end_of_unfinished());
        }
    }

    /// Issues the receipts of all attempts that have not ended. Must be called when the job ends.
    pub(super) fn issue_rest(&mut self) {
        let end = self.end_of_unfinished();
        for (id, mut granted) in std::mem::take(&mut self.granted) {
            while let Some(attempt) = granted.remove_last() {
                self.issue_unmeasured((id, granted.pending.attempt), &attempt, end);
            }
        }
    }

    /// Why an attempt did not come to its end.
    fn end_of_unfinished(&self) -> ReceiptEnd {
        let Some(ending) = &self.ending else { return ReceiptEnd::GIVEN_BACK };
        let is_fault =
            matches!(ending.by, Some(EndedBy::Commit | EndedBy::Replaced | EndedBy::Spawn));
        ReceiptEnd {
            outcome: ReceiptOutcome::Cancelled,
            not_billable: is_fault.then_some(NotBillable::OperatorFault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_cannot_report_more_than_is_possible() {
        let claimed = AttemptUsage::MAX;
        let lie = AttemptUsage {
            wall_us: claimed,
            cpu_us: claimed,
            memory_byte_ms: claimed,
            peak_memory: claimed,
            gpu_us: claimed,
            ..AttemptUsage::default()
        };
        let used = bounded(lie, Duration::from_secs(2));
        assert_eq!((used.wall_us, used.cpu_us), (2_000_000, 2_000_000 * MAX_CORES));
        assert_eq!(used.memory_byte_ms, 2000 * MAX_MEMORY);
        assert_eq!((used.peak_memory, used.gpu_us), (MAX_MEMORY, 3_632_000_000));
        let unbounded = bounded(lie, Duration::MAX);
        assert_eq!(unbounded.wall_us, claimed);
        assert_eq!(bounded(used, Duration::from_secs(2)), used);
    }
}
