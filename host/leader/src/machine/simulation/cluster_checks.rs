//! Invariants of a cluster that are checked after every step.

use super::super::job::SettledMiniBatch;
use super::cluster::Cluster;
use crate::model::{EndedBy, JobResult, MiniBatchId, NodeId};
use std::collections::BTreeMap;

impl Cluster {
    /// Checks which live workers have which mini-batch: one worker, or two on different nodes, which are in the same
    /// try. No live worker has a mini-batch that has ended. Attempts that wait until their mini-batch is planned may be in
    /// different tries: an order of an earlier leader to end one of them is lost with that leader.
    pub(super) fn check_held(&self) {
        let mut held: BTreeMap<MiniBatchId, Vec<(NodeId, u32)>> = BTreeMap::new();
        // A leader knows nothing of attempts that it has not been offered.
        let known = self.nodes.iter().filter(|(_, node)| !node.is_offering());
        for (node, simulated) in known {
            simulated.check_cancelled();
            for (id, attempt) in simulated.attempts() {
                held.entry(id).or_default().push((*node, attempt));
                assert!(attempt <= self.policy.max_try);
            }
        }
        for (id, attempts) in held {
            assert!(!self.has_ended(id), "{id} has ended and runs again: {self:#?}");
            let is_allowed = match attempts[..] {
                [_] => true,
                _ if self.job.awaits_plan_of(id) => true,
                [(node, attempt), (other_node, other_attempt)] => {
                    node != other_node && attempt == other_attempt
                }
                _ => false,
            };
            assert!(is_allowed, "{id} is on {attempts:?}: {self:#?}");
        }
    }

    fn has_ended(&self, id: MiniBatchId) -> bool {
        self.log.ended.contains_key(&id)
            || self.log.pending.iter().any(|settled| settled.report.id == id)
    }

    /// Checks the end of a mini-batch: it is the only one, and a success comes from an attempt that was not ended by a
    /// kill.
    pub(super) fn check_settled(&self, settled: &SettledMiniBatch) {
        let id = settled.report.id;
        assert!(!self.has_ended(id), "{id} ends twice: {self:#?}");
        let attempt = (settled.worker, id, settled.report.attempt);
        let is_valid = settled.report.outcome.is_err() || !self.killed.contains(&attempt);
        assert!(is_valid, "{attempt:?} was killed and counts: {self:#?}");
    }

    pub(super) fn check_end(&self, result: &JobResult) {
        self.log.receipts.check_end();
        match result.ended_by {
            // All mini-batches may have failed.
            None | Some(EndedBy::NothingSucceeded) => {
                assert_eq!(self.log.ended.len() as u64, self.mini_batches, "each has ended");
                let ended = result.succeeded_mini_batches + result.failed_mini_batches;
                assert_eq!(ended, self.mini_batches, "{result:#?}");
            }
            by => assert!(self.has_failed, "ended by {by:?}: {result:#?}"),
        }
        // A killed worker that does not end may remain, because the node no longer waits for it.
        let workers = self.nodes.values().flat_map(|node| node.workers.values());
        let live = workers.filter(|worker| !worker.is_killed).count();
        assert_eq!(live, 0, "the job ended before its workers: {self:#?}");
    }
}
