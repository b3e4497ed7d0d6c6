//! What mini-batches read of the planner's files, as objects in the job's store. The leader writes them before it grants
//! such a mini-batch. They stay until the job has completed, because a leader that continues the job also grants them.

use super::stored_rows::remove_below;
use crate::model::MiniBatch;
use sandmill_commit_log::{LogStore, OBJECT_BYTES};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// The folder of these objects, in the folder of a run. It has a folder for each leader.
const STORED_SPILL: &str = "spill";

/// The folder of the objects of the leader with this epoch.
pub fn spill_folder(run: &str, epoch: u64) -> String {
    format!("{run}/{STORED_SPILL}/{epoch:020}")
}

/// The name of an object.
pub fn spill_object(run: &str, epoch: u64, object: u64) -> String {
    format!("{}/{object:020}", spill_folder(run, epoch))
}

/// The objects that mini-batches of a plan read.
#[derive(Debug, Default)]
pub(super) struct NeededSpill {
    /// By the epochs of the leaders: how many objects. A leader numbers its objects from 0.
    objects: BTreeMap<u64, u64>,
}

impl NeededSpill {
    /// Adds what a mini-batch reads.
    pub(super) fn add(&mut self, batch: &MiniBatch) {
        let Some(spill) = &batch.spill else { return };
        let names = spill.names.iter().flatten();
        for bytes in names.chain([&spill.parts]).filter(|bytes| bytes.length > 0) {
            let last = bytes.offset.saturating_add(bytes.length - 1) / OBJECT_BYTES as u64;
            let count = bytes.object.saturating_add(last).saturating_add(1);
            let known = self.objects.entry(bytes.epoch).or_default();
            *known = count.max(*known);
        }
    }

    /// Whether the store has all of them.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn are_stored(&self, store: &dyn LogStore, run: &str) -> io::Result<bool> {
        for (epoch, count) in &self.objects {
            let found: HashSet<String> =
                store.list(&spill_folder(run, *epoch))?.into_iter().collect();
            let is_stored = |object: u64| found.contains(&format!("{object:020}"));
            if !(0..*count).all(is_stored) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Removes the objects of a run.
///
/// # Errors
/// If the store fails.
pub(super) fn remove_stored_spill(store: &dyn LogStore, run: &str) -> io::Result<()> {
    remove_below(store, &format!("{run}/{STORED_SPILL}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MiniBatchId, MiniBatchWork, StoredBytes, StoredSpill};
    use sandmill_commit_log::FolderStore;

    #[test]
    fn a_plan_is_useless_without_one_of_its_objects() {
        let dir = tempfile::tempdir().unwrap();
        let store = FolderStore::new(dir.path().canonicalize().unwrap());
        let bytes = |epoch, object, offset, length| StoredBytes {
            epoch,
            object,
            offset,
            length,
            sha256: [0; 32],
        };
        let mut needed = NeededSpill::default();
        assert!(needed.are_stored(&store, "run").unwrap());
        for (names, parts) in [
            (Some([bytes(3, 0, 0, 5), bytes(3, 0, 5, 0)]), bytes(3, 0, 5, OBJECT_BYTES as u64)),
            (None, bytes(9, 0, 0, OBJECT_BYTES as u64)),
        ] {
            let spill = Some(Box::new(StoredSpill { parts, names }));
            let batch = MiniBatch::new(MiniBatchId(0), 0, MiniBatchWork::Void);
            needed.add(&MiniBatch { spill, ..batch });
        }
        let names =
            [(3, 0), (3, 1), (9, 0)].map(|(epoch, object)| spill_object("run", epoch, object));
        for name in &names {
            assert!(!needed.are_stored(&store, "run").unwrap(), "{name}");
            store.make_folder(name.rsplit_once('/').unwrap().0).unwrap();
            store.create(name, b"x").unwrap();
        }
        assert!(needed.are_stored(&store, "run").unwrap());
        store.remove(&names[1]).unwrap();
        assert!(!needed.are_stored(&store, "run").unwrap());
        remove_stored_spill(&store, "run").unwrap();
        assert_eq!(store.list("run/spill/00000000000000000009").unwrap(), [""; 0]);
    }
}
