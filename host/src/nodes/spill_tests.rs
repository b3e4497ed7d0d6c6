//! Tests of the way of the planner's files through the job's store, from the leader to a node.

use super::*;
use crate::engine::folder_objects;
use crate::model::{MiniBatchId, SpilledRows, TextSlice};
use crate::node::{SpillArrival, SpillCopies, SpillFailure, local_name};
use crate::nodes::spill_fetch::SpillFetch;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const RUN: &str = "run-1";
const EPOCH: u64 = 7;

/// The folders of a leader's planner and of a node, and a store.
struct World {
    folder: TempDir,
    objects: Arc<dyn LogStore>,
    runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["planner", "node"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let objects = folder_objects(&root.join("store"), "job").unwrap();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        Self { folder, objects, runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn leader(&self) -> SpillStore {
        let folder = self.path("planner");
        let mut store = SpillStore::new(self.objects.clone(), RUN.to_owned(), folder);
        store.begin(EPOCH, MiniBatchSet::default());
        store
    }

    /// Passes messages through the store until as many have come back.
    fn pass(&self, store: &mut SpillStore, messages: Vec<FromPlanner>) -> Vec<FromPlanner> {
        let mut left = messages.len();
        let mut passed = Vec::new();
        for message in messages {
            passed.extend(store.pass(message));
        }
        left -= passed.len();
        while left > 0 {
            let reports = self.runtime.block_on(store.next());
            for report in reports {
                if let NodeReport::Planned(message) = report {
                    let is_end = matches!(message, FromPlanner::Failed(_));
                    passed.push(message);
                    left = if is_end { 0 } else { left - 1 };
                }
            }
        }
        passed
    }

    fn stored(&self, batch: MiniBatch) -> MiniBatch {
        let passed = self.pass(&mut self.leader(), vec![FromPlanner::MiniBatches(vec![batch])]);
        match &passed[..] {
            [FromPlanner::MiniBatches(batches)] => batches[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    fn node(&self) -> SpillCopies {
        SpillFetch::start(self.objects.clone(), RUN, self.path("node")).unwrap()
    }

    /// Lets the node fetch a copy.
    fn fetch(
        &self,
        node: &mut SpillCopies,
        number: u64,
        batch: &MiniBatch,
    ) -> Option<SpillFailure> {
        node.fetcher.fetch(number, *batch.spill.clone().unwrap());
        let arrival = self.runtime.block_on(node.arrivals.recv()).unwrap();
        let SpillArrival { number: found, failed } = arrival;
        assert_eq!(found, number);
        failed
    }

    fn copy(&self, number: u64) -> Option<Vec<u8>> {
        fs::read(self.path("node").join(local_name(number))).ok()
    }

    fn object(&self, number: u64) -> PathBuf {
        self.path("store/job").join(spill_object(RUN, EPOCH, number))
    }
}

/// A part of an unpacked text.
fn text(id: u64, file: &str, offset: u64, length: u64) -> MiniBatch {
    let unpacked = Some(file.to_owned());
    let slice = TextSlice { offset, length, unpacked, ..TextSlice::sample() };
    MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Text(slice))
}

/// Bytes without a pattern that a wrong offset would keep.
fn bytes(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..count).map(next).collect()
}

#[test]
fn a_node_reads_what_the_planner_has_written() {
    let world = World::new();
    let content = bytes(3 * OBJECT_BYTES);
    fs::write(world.path("planner/a"), &content).unwrap();
    // The second part is longer than an object.
    let lengths = [5, OBJECT_BYTES + 7, 100, 1_000_000, OBJECT_BYTES];
    let mut offset = 0;
    let mut batches = Vec::new();
    for (id, length) in (0..).zip(lengths) {
        batches.push(text(id, "a", offset, length as u64));
        offset += length as u64;
    }
    // A mini-batch in a message of its own, and messages between them, stay in their order.
    let last = batches.split_off(3);
    let messages = vec![
        FromPlanner::Tables(Vec::new()),
        FromPlanner::MiniBatches(batches),
        FromPlanner::Notice("between".to_owned()),
        FromPlanner::MiniBatches(last),
        FromPlanner::Finished,
    ];
    let passed = world.pass(&mut world.leader(), messages.clone());
    let mut node = world.node();
    let mut found = Vec::new();
    for (passed, sent) in passed.iter().zip(&messages) {
        let (FromPlanner::MiniBatches(passed), FromPlanner::MiniBatches(sent)) = (passed, sent)
        else {
            assert_eq!(passed, sent);
            continue;
        };
        for (passed, sent) in passed.iter().zip(sent) {
            assert_eq!(MiniBatch { spill: None, ..passed.clone() }, *sent);
            assert_eq!(world.fetch(&mut node, passed.id.0, passed), None);
            found.extend(world.copy(passed.id.0).unwrap());
            node.fetcher.release(passed.id.0);
            assert_eq!(world.copy(passed.id.0), None, "the disk of a node is small");
        }
    }
    assert_eq!(passed.len(), messages.len());
    assert!(found == content[..found.len()]);
    assert_eq!(found.len(), lengths.iter().sum::<usize>());
}

#[test]
fn grouped_rows_have_origins_and_names() {
    let world = World::new();
    for (name, content) in [("text-1", "xROWSx"), ("origins-1", "yyORIGINS"), ("names", "ab")] {
        fs::write(world.path("planner").join(name), content).unwrap();
    }
    fs::write(world.path("planner/names.index"), "index").unwrap();
    let rows = SpilledRows {
        text: TextSlice { file: "text-1".to_owned(), offset: 1, length: 4, ..TextSlice::sample() },
        origins: "origins-1".to_owned(),
        origins_offset: 2,
        origins_length: 7,
        names: "names".to_owned(),
    };
    let batch = |id| MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Rows(rows.clone()));
    let passed = world.pass(
        &mut world.leader(),
        vec![FromPlanner::MiniBatches(vec![batch(0), batch(1)]), FromPlanner::Finished],
    );
    let [FromPlanner::MiniBatches(batches), FromPlanner::Finished] = &passed[..] else {
        panic!("{passed:?}");
    };
    let names = |batch: &MiniBatch| batch.spill.clone().unwrap().names.unwrap();
    assert_eq!(names(&batches[0]), names(&batches[1]), "names are stored once");
    let mut node = world.node();
    for (number, batch) in (0..).zip(batches) {
        assert_eq!(world.fetch(&mut node, number, batch), None);
        assert_eq!(world.copy(number).unwrap(), b"ROWSORIGINS");
        let names =
            world.path("node").join(crate::node::local_names(batch.spill.as_ref().unwrap()));
        assert_eq!(fs::read(&names).unwrap(), b"ab");
        assert_eq!(fs::read(names.with_extension("index")).unwrap(), b"index");
    }
}

#[test]
fn a_damaged_object_is_not_read() {
    let world = World::new();
    fs::write(world.path("planner/a"), "0123456789").unwrap();
    let batch = world.stored(text(0, "a", 2, 6));
    let object = world.object(0);
    let mut node = world.node();
    let mut number = 0;
    let mut fetched = || {
        number += 1;
        let failed = world.fetch(&mut node, number, &batch);
        assert_eq!(world.copy(number).is_some(), failed.is_none());
        failed.map(|failed| match failed {
            SpillFailure::Unfetched(reason) => reason.split_once("00000 ").unwrap().1.to_owned(),
            SpillFailure::NoSpace(text) => panic!("{text}"),
        })
    };
    assert_eq!(fetched(), None);
    for (content, expected) in [
        (Some("234x67"), "in the job store is not what the leader has written"),
        (Some("23"), "in the job store is shorter than the leader has written it"),
        (Some(""), "in the job store is shorter than the leader has written it"),
        (None, "is missing in the job store"),
    ] {
        fs::remove_file(&object).unwrap();
        if let Some(content) = content {
            fs::write(&object, content).unwrap();
        }
        assert_eq!(fetched().as_deref(), Some(expected));
        fs::write(&object, "234567").unwrap();
        assert_eq!(fetched(), None, "it is fetched again");
    }
}

/// The planner parses untrusted files. It must not make the leader read other files.
#[test]
fn the_planner_cannot_name_other_files() {
    let world = World::new();
    fs::write(world.path("secret"), "secret").unwrap();
    symlink(world.path("secret"), world.path("planner/link")).unwrap();
    fs::write(world.path("planner/short"), "x").unwrap();
    let refused = |file: &str| {
        let batch = text(0, file, 0, 6);
        let passed = world.pass(&mut world.leader(), vec![FromPlanner::MiniBatches(vec![batch])]);
        match &passed[..] {
            [FromPlanner::Failed(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused("../secret"), "the planner named a file outside of its folder: ../secret");
    for name in ["link", "short", "missing"] {
        assert!(refused(name).starts_with("the planner's file "), "{}", refused(name));
    }
    assert_eq!(fs::read_dir(world.path("store/job/run-1/spill")).unwrap().flatten().count(), 1);
    assert!(!world.object(0).exists());
}

/// Mini-batches that ended in earlier runs are not granted, so nothing is stored for them.
#[test]
fn nothing_is_stored_for_what_is_done() {
    let world = World::new();
    fs::write(world.path("planner/a"), "0123456789").unwrap();
    let mut leader = world.leader();
    let mut done = MiniBatchSet::default();
    done.insert(MiniBatchId(0));
    leader.begin(EPOCH, done);
    let batches = vec![text(0, "a", 0, 5), text(1, "a", 5, 5)];
    let passed = world.pass(&mut leader, vec![FromPlanner::MiniBatches(batches)]);
    let [FromPlanner::MiniBatches(batches)] = &passed[..] else { panic!("{passed:?}") };
    assert_eq!(batches[0].spill, None);
    assert_eq!(fs::read(world.object(0)).unwrap(), b"56789");
}
