//! Tests of the plan in a folder.

use super::object::PlanDamage;
use super::*;
use crate::model::{MiniBatch, MiniBatchId, MiniBatchWork, TableFormat, TextSlice};
use crate::protocol::{PlanPlace, PlanPosition};
use sandmill_commit_log::{FolderStore, LogStore};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

struct PlanFolder {
    _dir: tempfile::TempDir,
    folder: PathBuf,
    plan: StoredPlan,
}

impl PlanFolder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("job");
        let folder = root.join("run-1/plan");
        let store: Arc<dyn LogStore> = Arc::new(FolderStore::new(root));
        Self { _dir: dir, folder, plan: StoredPlan::new(&store, "run-1") }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}"))
    }

    /// Writes parts of a plan, each after the part before it was written. Returns what the writer said last.
    fn write(&self, first: u64, parts: &[PlanObject]) -> Option<PlanWritten> {
        let (sender, mut written) = mpsc::unbounded_channel();
        let writer = PlanWriter::start(self.plan.clone(), first, sender).unwrap();
        let mut last = None;
        for PlanObject { tables, batches, position } in parts.iter().cloned() {
            let end = position.mini_batches;
            writer.add(tables, batches, position);
            last = written.blocking_recv();
            if !matches!(last, Some(PlanWritten::Until(until)) if until == end) {
                break;
            }
        }
        last
    }

    /// The ids of all mini-batches before the first error, and the error.
    fn read(&self) -> (Vec<u64>, Option<String>) {
        let mut ids = Vec::new();
        for object in self.plan.read(self.plan.objects().unwrap()) {
            match object {
                Ok(object) => ids.extend(object.batches.iter().map(|batch| batch.id.0)),
                Err(error) => return (ids, Some(error.to_string())),
            }
        }
        (ids, None)
    }
}

/// A part of a plan with the mini-batches from `first` on.
fn part(first: u64, count: u64) -> PlanObject {
    let batch = |id| {
        let slice = TextSlice { offset: id * 100, ..TextSlice::sample() };
        MiniBatch::new(MiniBatchId(id), 0, MiniBatchWork::Text(slice))
    };
    let tables = if first == 0 { vec![TableFormat::default()] } else { Vec::new() };
    PlanObject {
        tables,
        batches: (first..first + count).map(batch).collect(),
        position: PlanPosition {
            mini_batches: first + count,
            source: 0,
            file: "a.csv".to_owned(),
            place: PlanPlace::Text { offset: 7, lines: 8 },
            files: 9,
        },
    }
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let folder = PlanFolder::new();
    assert_eq!(folder.read(), (Vec::new(), None));
    let parts: Vec<PlanObject> = (0..20).map(|number| part(number * 3, 3)).collect();
    assert!(matches!(folder.write(0, &parts), Some(PlanWritten::Until(60))));
    let read: Vec<PlanObject> = folder.plan.read(20).map(Result::unwrap).collect();
    assert_eq!(read, parts);
    let known =
        KnownPlan { stored: folder.plan, objects: 20, position: parts[19].position.clone() };
    let mut feed = PlanFeed::start(known).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for part in &parts {
            assert_eq!(feed.next().await.unwrap().unwrap(), *part);
        }
        assert!(feed.next().await.is_none());
    });
}

#[test]
fn parts_that_come_together_are_one_object() {
    let folder = PlanFolder::new();
    let (sender, mut written) = mpsc::unbounded_channel();
    let writer = PlanWriter::start(folder.plan.clone(), 0, sender).unwrap();
    for number in 0..400 {
        let PlanObject { tables, batches, position } = part(number * 2, 2);
        writer.add(tables, batches, position);
    }
    // The rest is written without a pause, so that mini-batches do not wait for ever.
    drop(writer);
    let mut end = 0;
    while let Some(PlanWritten::Until(until)) = written.blocking_recv() {
        assert!(until > end);
        end = until;
    }
    assert_eq!(end, 800);
    assert_eq!(folder.read(), ((0..800).collect(), None));
    assert!(folder.plan.objects().unwrap() < 100, "{:?}", folder.plan.objects());
}

#[test]
fn what_is_damaged_or_missing_ends_the_plan() {
    let folder = PlanFolder::new();
    let parts: Vec<PlanObject> = (0..10).map(|number| part(number * 3, 3)).collect();
    folder.write(0, &parts);
    let intact = fs::read(folder.file(4)).unwrap();
    let before: Vec<u64> = (0..12).collect();
    let broken = |bytes: &[u8]| {
        fs::remove_file(folder.file(4)).unwrap();
        fs::write(folder.file(4), bytes).unwrap();
        let (ids, error) = folder.read();
        assert_eq!(ids, before);
        error.unwrap()
    };
    let mut changed = intact.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(broken(&changed).contains("does not match its checksum"));
    assert!(broken(&intact[..intact.len() / 2]).contains("is damaged"));
    assert!(broken(b"").contains("it is not a record"));
    let other = fs::read(folder.file(5)).unwrap();
    assert!(broken(&other).contains("it holds record 5"));
    fs::remove_file(folder.file(4)).unwrap();
    assert_eq!(folder.read(), (before, None));
    // The numbers of the later objects are taken.
    let known = || {
        let position = parts[3].position.clone();
        Some(KnownPlan { stored: folder.plan.clone(), objects: 4, position })
    };
    assert_eq!(PlanUse::resume(folder.plan.clone(), known()).next, None);
    for number in 5..10 {
        fs::remove_file(folder.file(number)).unwrap();
    }
    assert_eq!(PlanUse::resume(folder.plan.clone(), known()).next, Some(4));
    assert_eq!(PlanUse::resume(folder.plan.clone(), None).next, None);
}

/// Parts that do not follow each other would run mini-batches twice, or not at all.
#[test]
fn parts_must_follow_each_other() {
    let folder = PlanFolder::new();
    folder.write(0, &[part(0, 3), part(4, 3)]);
    let (ids, error) = folder.read();
    assert_eq!(ids, [0, 1, 2]);
    assert!(error.unwrap().contains(&PlanDamage::Gap.to_string()));
    let mut bytes = part(0, 1).encode();
    bytes[0] ^= 1;
    assert_eq!(PlanObject::decode(&bytes, 0), Err(PlanDamage::Version));
}

#[test]
fn a_part_of_another_leader_ends_the_writing() {
    let folder = PlanFolder::new();
    folder.write(0, &[part(0, 3)]);
    match folder.write(0, &[part(0, 2)]) {
        Some(PlanWritten::Stopped(text)) => assert!(text.contains("another object"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(folder.read().0, [0, 1, 2]);
}
