//! What a later leader of a job must learn from a node that goes on with its workers.

use super::pack::{ended_worker, success_of, with_results};
use crate::bus::StoredPack;
use crate::model::{MiniBatchId, WorkerId};
use crate::protocol::{ContinuedAttempt, NodeNews, NodeReport};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The most successes that are kept of a worker. The rows of older ones are probably in the output. If they are not,
/// their mini-batches run again.
const MAX_SUCCESSES: usize = 500;

/// The most packs in the job's store that are kept. As above.
const MAX_PACKS: usize = 2000;

/// Reports that a node has sent to its leader, and would send again to another one.
#[derive(Debug, Default)]
pub(super) struct KeptReports {
    /// For each worker that has not exited: that it was started, and that it is ready.
    workers: BTreeMap<WorkerId, Vec<NodeReport>>,
    /// The wall around the workers.
    wall: Option<NodeReport>,
    /// For each worker: the successes whose rows may not be in the output yet.
    successes: BTreeMap<WorkerId, VecDeque<NodeReport>>,
    /// If rows and files are in packs: by the numbers of the packs, the reports that speak of them.
    packs: BTreeMap<u64, (Vec<NodeReport>, StoredPack)>,
}

impl KeptReports {
    /// Notes a report to the leader.
    pub(super) fn note(&mut self, report: &NodeReport) {
        match report {
            NodeReport::News(NodeNews::Spawned { worker, .. }) => {
                self.workers.insert(*worker, vec![report.clone()]);
            }
            NodeReport::News(NodeNews::Ready { worker, .. }) => {
                if let Some(reports) = self.workers.get_mut(worker) {
                    reports.truncate(1);
                    reports.push(report.clone());
                }
            }
            NodeReport::News(NodeNews::Finished { worker, report: attempt, .. })
                if attempt.outcome.is_ok() =>
            {
                let successes = self.successes.entry(*worker).or_default();
                if successes.len() >= MAX_SUCCESSES {
                    successes.pop_front();
                }
                successes.push_back(report.clone());
            }
            NodeReport::WorkerGone(worker) => {
                self.workers.remove(worker);
            }
            NodeReport::Wall(_) => self.wall = Some(report.clone()),
            _ => {}
        }
    }

    /// Notes reports to the leader whose rows and files are in this pack.
    pub(super) fn note_pack(&mut self, reports: &[NodeReport], pack: &StoredPack) {
        let others = reports.iter().filter(|report| success_of(report).is_none());
        others.for_each(|report| self.note(report));
        let kept = with_results(reports);
        if kept.is_empty() {
            return;
        }
        if self.packs.len() >= MAX_PACKS {
            // Packs with files of workers that have ended come last: nothing makes these files again.
            let mut packs = self.packs.iter();
            let has_ended_workers = |reports: &[NodeReport]| {
                reports.iter().any(|report| ended_worker(report).is_some())
            };
            let oldest = packs.find(|(_, (reports, _))| !has_ended_workers(reports));
            let oldest = oldest.or(self.packs.first_key_value()).map(|(number, _)| *number);
            oldest.and_then(|oldest| self.packs.remove(&oldest));
        }
        self.packs.insert(pack.number, (kept, pack.clone()));
    }

    /// The mini-batches of a pack are committed.
    pub(super) fn release_pack(&mut self, number: u64) {
        self.packs.remove(&number);
    }

    /// The packs that another leader must read, with the reports that speak of them. They come after the reports of
    /// [`for_leader`](Self::for_leader).
    pub(super) fn packs(&self) -> Vec<(Vec<NodeReport>, StoredPack)> {
        self.packs.values().cloned().collect()
    }

    /// The rows of this attempt, and of all attempts that its worker reported before, are in the output.
    pub(super) fn release(&mut self, worker: WorkerId, id: MiniBatchId, attempt: u32) {
        let Some(successes) = self.successes.get_mut(&worker) else { return };
        let is_it = |report: &NodeReport| ended_attempt(report) == Some((id, attempt));
        if let Some(last) = successes.iter().position(is_it) {
            successes.drain(..=last);
        }
    }

    /// What another leader must learn first. `held`: the attempts that workers have. `unsent`: those that have ended, and whose
    /// reports follow later.
    pub(super) fn for_leader(
        &self,
        mut held: Vec<ContinuedAttempt>,
        unsent: impl Iterator<Item = (MiniBatchId, u32)>,
    ) -> Vec<NodeReport> {
        let successes = || self.successes.values().flatten();
        let in_packs = self.packs.values().flat_map(|(reports, _)| reports).filter_map(success_of);
        let ended = successes().filter_map(ended_attempt).chain(in_packs).chain(unsent);
        held.extend(ended.map(|(id, attempt)| ContinuedAttempt {
            id,
            attempt,
            runs_on: None,
            age: Duration::ZERO,
        }));
        let workers = self.workers.values().flatten().cloned();
        let mut reports: Vec<NodeReport> = workers.chain(self.wall.clone()).collect();
        reports.push(NodeReport::News(NodeNews::Continues(held)));
        reports.extend(successes().cloned());
        reports
    }
}

/// The attempt whose end this reports.
pub(super) fn ended_attempt(report: &NodeReport) -> Option<(MiniBatchId, u32)> {
    match report {
        NodeReport::News(NodeNews::Finished { report, .. }) => Some((report.id, report.attempt)),
        NodeReport::News(NodeNews::Lost { id, attempt, .. }) => Some((*id, *attempt)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptReport, AttemptUsage};

    fn finished(worker: u32, id: u64) -> NodeReport {
        let report = Box::new(AttemptReport { id: MiniBatchId(id), ..AttemptReport::sample() });
        let worker = WorkerId(worker);
        let age = Duration::from_secs(1);
        let usage = AttemptUsage::default();
        NodeReport::News(NodeNews::Finished { worker, age, has_run: true, usage, report })
    }

    fn spawned(worker: u32) -> NodeReport {
        let worker = WorkerId(worker);
        NodeReport::News(NodeNews::Spawned { worker, pid: 7, gpu: None })
    }

    #[test]
    fn another_leader_learns_what_may_not_be_committed() {
        let mut kept = KeptReports::default();
        let attempt = AttemptReport::sample().attempt;
        for worker in [0, 1] {
            kept.note(&spawned(worker));
        }
        for (worker, id) in [(0, 1), (0, 2), (1, 3), (0, 4)] {
            kept.note(&finished(worker, id));
        }
        kept.release(WorkerId(0), MiniBatchId(2), attempt);
        kept.release(WorkerId(1), MiniBatchId(9), attempt);
        kept.note(&NodeReport::WorkerGone(WorkerId(1)));
        let unsent = [finished(0, 5), NodeReport::Changed];
        let mut reports = kept.for_leader(Vec::new(), unsent.iter().filter_map(ended_attempt));
        let NodeReport::News(NodeNews::Continues(continued)) = reports.remove(1) else {
            panic!("{reports:?}");
        };
        let ids: Vec<u64> = continued.iter().map(|continued| continued.id.0).collect();
        assert_eq!(ids, [4, 3, 5]);
        assert_eq!(reports, [spawned(0), finished(0, 4), finished(1, 3)]);
    }

    /// A pack is reported again until all of it is committed. The files of a worker that has ended stay in it.
    #[test]
    fn another_leader_reads_packs_again() {
        let mut kept = KeptReports::default();
        let pack = |number| StoredPack { number, objects: 1, bytes: 1, sha256: [7; 32] };
        let done = NodeReport::WorkerDone(WorkerId(0));
        kept.note_pack(&[spawned(0), finished(0, 1), finished(0, 2)], &pack(0));
        kept.note_pack(&[finished(0, 3), done.clone(), NodeReport::Changed], &pack(1));
        kept.note_pack(&[NodeReport::Changed], &pack(2));
        kept.note_pack(&[finished(0, 4)], &pack(3));
        kept.release_pack(3);
        let mut reports = kept.for_leader(Vec::new(), std::iter::once((MiniBatchId(5), 1)));
        let Some(NodeReport::News(NodeNews::Continues(continued))) = reports.pop() else {
            panic!("{reports:?}");
        };
        let ids: Vec<u64> = continued.iter().map(|continued| continued.id.0).collect();
        assert_eq!(ids, [1, 2, 3, 5]);
        assert_eq!(reports, [spawned(0)]);
        let first = (vec![finished(0, 1), finished(0, 2)], pack(0));
        assert_eq!(kept.packs(), [first, (vec![finished(0, 3), done], pack(1))]);
    }
}
