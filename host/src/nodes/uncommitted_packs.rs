//! The packs of nodes that the leader has read, until all of their mini-batches are committed. If the leader is lost before,
//! the next one reads them again.

use super::pack::{ended_worker, success_of};
use crate::bus::StoredPack;
use crate::model::{MiniBatchId, MiniBatchSet};
use crate::protocol::NodeReport;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A pack in the job's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackInStore {
    /// The incarnation of the node that has reported it.
    pub(super) incarnation: String,
    /// The folder of the node's objects.
    pub(super) folder: String,
    pub(super) pack: StoredPack,
}

/// The packs that are still needed.
#[derive(Debug, Default)]
pub(super) struct UncommittedPacks {
    next: u64,
    /// The mini-batches that have ended.
    ended: MiniBatchSet,
    packs: BTreeMap<u64, (PackInStore, HashSet<MiniBatchId>)>,
    /// The packs with a success of a mini-batch.
    of_batch: HashMap<MiniBatchId, Vec<u64>>,
}

impl UncommittedPacks {
    /// `ended`: the mini-batches that ended under earlier leaders.
    pub(super) fn new(ended: MiniBatchSet) -> Self {
        Self { ended, ..Self::default() }
    }

    /// Keeps a pack with what these reports speak of. Returns it if it need not be kept. The files of workers that have ended
    /// are needed until the job's end.
    pub(super) fn add(&mut self, pack: PackInStore, reports: &[NodeReport]) -> Option<PackInStore> {
        if reports.iter().any(|report| ended_worker(report).is_some()) {
            return None;
        }
        let ids = reports.iter().filter_map(success_of).map(|(id, _)| id);
        let ids: HashSet<MiniBatchId> = ids.filter(|id| !self.ended.contains(*id)).collect();
        if ids.is_empty() {
            return Some(pack);
        }
        let key = self.next;
        self.next += 1;
        for id in &ids {
            self.of_batch.entry(*id).or_default().push(key);
        }
        self.packs.insert(key, (pack, ids));
        None
    }

    /// Notes that mini-batches have ended for good. Returns the packs that are no longer needed.
    pub(super) fn committed(&mut self, ids: &[MiniBatchId]) -> Vec<PackInStore> {
        let mut useless = Vec::new();
        for id in ids {
            self.ended.insert(*id);
            for key in self.of_batch.remove(id).into_iter().flatten() {
                let Some((_, left)) = self.packs.get_mut(&key) else { continue };
                left.remove(id);
                if left.is_empty()
                    && let Some((pack, _)) = self.packs.remove(&key)
                {
                    useless.push(pack);
                }
            }
        }
        useless
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AttemptReport, AttemptUsage, WorkerId};
    use crate::protocol::NodeNews;
    use std::time::Duration;

    fn pack(number: u64) -> PackInStore {
        let pack = StoredPack { number, objects: 1, bytes: 1, sha256: [0; 32] };
        PackInStore { incarnation: "a".to_owned(), folder: "f".to_owned(), pack }
    }

    fn finished(id: u64) -> NodeReport {
        let report = Box::new(AttemptReport { id: MiniBatchId(id), ..AttemptReport::sample() });
        let worker = WorkerId(0);
        let usage = AttemptUsage::default();
        NodeReport::News(NodeNews::Finished {
            worker,
            age: Duration::ZERO,
            has_run: true,
            usage,
            report,
        })
    }

    fn numbers(packs: &[PackInStore]) -> Vec<u64> {
        packs.iter().map(|found| found.pack.number).collect()
    }

    #[test]
    fn a_pack_is_kept_until_all_of_it_is_committed() {
        let mut packs = UncommittedPacks::default();
        let committed = |ids: &[u64], packs: &mut UncommittedPacks| {
            let ids: Vec<MiniBatchId> = ids.iter().map(|id| MiniBatchId(*id)).collect();
            numbers(&packs.committed(&ids))
        };
        assert_eq!(packs.add(pack(0), &[finished(1), finished(2)]), None);
        // Twins: both packs have a success of the mini-batch.
        assert_eq!(packs.add(pack(1), &[finished(2)]), None);
        assert_eq!(committed(&[9], &mut packs), [0; 0]);
        assert_eq!(committed(&[2], &mut packs), [1]);
        assert_eq!(committed(&[1, 2], &mut packs), [0]);
        assert_eq!(committed(&[1], &mut packs), [0; 0]);
        assert_eq!(packs.add(pack(2), &[NodeReport::Changed]), Some(pack(2)), "only logs");
        assert_eq!(packs.add(pack(4), &[finished(1)]), Some(pack(4)), "its twin is committed");
        let done = [finished(3), NodeReport::WorkerDone(WorkerId(0))];
        assert_eq!(packs.add(pack(3), &done), None);
        assert_eq!(committed(&[3], &mut packs), [0; 0], "its files are published at the end");
        assert!(packs.packs.is_empty() && packs.of_batch.is_empty());
    }
}
