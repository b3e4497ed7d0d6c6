//! Crashes between any two steps. What a job leaves must not depend on how often it was cut short.

use super::super::commit_group::Store;
use super::super::commit_recover::recover;
use super::*;
use crate::fail_point;
use crate::journal::JobIdentity;
use crate::model::FailureKind;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const HEADER: &str = "id letter\n";

/// A job of a few mini-batches, each of which yields the same whenever it runs.
struct World {
    _dir: Option<tempfile::TempDir>,
    target: CommitTarget,
    mini_batches: u64,
    /// Begins again after each crash.
    runs: u32,
    /// Workers that ended in order in the run that completed.
    last_workers: Vec<WorkerId>,
    damage_steps: Vec<Damage>,
}

/// What may happen to files while nothing runs.
#[derive(Clone, Debug)]
enum Damage {
    CutPart(usize, f64),
    RemovePart(usize),
    CutOutput(f64),
    ChangeOutput(f64),
    RemoveOutput,
    ExtendOutput,
}

impl World {
    fn new(ordered: bool, on_conflict: OnConflict) -> Self {
        // In memory where that is possible: there, syncing costs nothing.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let world = Self::at(dir.path(), ordered, on_conflict);
        Self { _dir: Some(dir), ..world }
    }

    fn at(path: &Path, ordered: bool, on_conflict: OnConflict) -> Self {
        let job_dir = JobDir::new(path);
        for folder in [job_dir.parts(), job_dir.work(), job_dir.default_output()] {
            fs::create_dir_all(folder).unwrap();
        }
        let target = CommitTarget {
            output: job_dir.default_output(),
            job_dir,
            output_file: Some("rows.txt".into()),
            ordered,
            on_conflict,
            header_wanted: true,
        };
        let (runs, last_workers, damage_steps) = (0, Vec::new(), Vec::new());
        Self { _dir: None, target, mini_batches: 9, runs, last_workers, damage_steps }
    }

    /// The rows of a mini-batch; some have none.
    fn rows(id: u64) -> String {
        format!("{id} a\n{id} b\n").repeat(id as usize % 3)
    }

    fn failed(id: u64) -> bool {
        id == 7
    }

    /// What it writes to files.
    fn files(&self, id: u64) -> Vec<(String, String)> {
        match (id % 4, self.target.on_conflict) {
            (1, OnConflict::Error) => [format!("own/{id}"), format!("deep/er/{id}")]
                .map(|p| (p, format!("of {id}")))
                .into(),
            (1 | 2, OnConflict::Append | OnConflict::Overwrite) => {
                ["shared", "deep/shared"].map(|p| (p.to_owned(), format!("of {id}\n"))).into()
            }
            _ => Vec::new(),
        }
    }

    fn journal(&self) -> Journal {
        let (path, identity) = (self.target.job_dir.journal(), super::tests::identity());
        let _: &JobIdentity = &identity;
        if path.exists() { Journal::open(&path) } else { Journal::create(&path, &identity) }
            .unwrap()
    }

    /// What a worker does for a mini-batch.
    fn work(&self, worker: WorkerId, id: u64) -> CommitRequest {
        if Self::failed(id) {
            return CommitRequest::Failure(FinalFailure {
                id: MiniBatchId(id),
                attempts: 3,
                worker: Some(worker),
                items: ItemCounts::from_returned(1, 0),
                failure: Failure::new(FailureKind::Trap, "unreachable"),
                stamp: id,
            });
        }
        let rows = Self::rows(id);
        let part = self.target.job_dir.part_file(worker);
        let mut part = OpenOptions::new().create(true).append(true).open(part).unwrap();
        let offset = part.metadata().unwrap().len();
        part.write_all(rows.as_bytes()).unwrap();
        let (length, checksum) = (rows.len() as u64, crc32fast::hash(rows.as_bytes()));
        let segment = Segment { offset, length, checksum, rows: rows.lines().count() as u64 };
        let staged = self.target.job_dir.staged(worker, MiniBatchId(id), 1);
        let files = self.files(id);
        for (path, text) in &files {
            let path = staged.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        CommitRequest::Success(Success {
            worker,
            id: MiniBatchId(id),
            attempt: 1,
            items: ItemCounts::from_returned(2, segment.rows),
            segment,
            // The first ones have none, so that it comes when there are rows.
            header: (id > 3).then(|| HEADER.to_owned()),
            has_files: !files.is_empty(),
            stamp: id,
        })
    }

    /// Begins, or goes on, and completes.
    fn run(&mut self) {
        let (mut store, restored) = recover(self.target.clone(), self.journal(), false).unwrap();
        store.rows.as_mut().unwrap().checkpoint_always();
        let counts = store.journal.counts();
        assert_eq!(restored.ended(), counts.succeeded + counts.failed);
        assert_eq!(restored.rows, counts.rows);
        let workers = [0, 1, 2].map(|n| WorkerId(restored.next_worker + n));
        let mut ids: Vec<_> = (0..self.mini_batches).collect();
        // Not the order of ids, and another one each time.
        let turn = (4 * self.runs as usize) % ids.len();
        ids.rotate_left(turn);
        ids.retain(|id| !restored.finished.contains(MiniBatchId(*id)));
        self.runs += 1;
        for group in ids.chunks(3) {
            let work = |id: &u64| self.work(workers[*id as usize % 2], *id);
            commit(&mut store, group.iter().map(work).collect());
        }
        // Nobody starts workers when all is done, those who say so included.
        let said = store.journal.files().unwrap().iter().any(|file| file.mini_batch.is_none());
        if ids.is_empty() && (said || !store.files.done.is_empty()) {
            return store.finish(JobStatus::Completed).unwrap();
        }
        self.last_workers.clear();
        for worker in &workers[..2] {
            let folder = self.target.job_dir.worker_output(*worker);
            fs::create_dir_all(folder.join("made")).unwrap();
            fs::write(folder.join("labels"), "same").unwrap();
            if self.target.on_conflict != OnConflict::Error {
                fs::write(folder.join("log"), format!("{worker}\n")).unwrap();
            }
        }
        commit(&mut store, workers[..2].iter().map(|w| CommitRequest::WorkerDone(*w)).collect());
        commit(&mut store, workers.iter().map(|w| CommitRequest::WorkerGone(*w)).collect());
        self.last_workers = workers[..2].to_vec();
        store.finish(JobStatus::Completed).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.target.output.join(name)).unwrap()
    }

    /// The output is what one undisturbed run makes.
    fn check(&self) {
        let rows = self.read("rows.txt");
        let body = rows.strip_prefix(HEADER).unwrap_or_else(|| panic!("no header: {rows}"));
        let wanted: Vec<_> = (0..self.mini_batches).filter(|id| !Self::failed(*id)).collect();
        let all: String = wanted.iter().map(|id| Self::rows(*id)).collect();
        if self.target.ordered {
            assert_eq!(body, all);
        }
        assert_eq!(sorted(body), sorted(&all));
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in &wanted {
            for (path, text) in self.files(*id) {
                files.entry(path).or_default().push(text);
            }
        }
        for (path, texts) in &files {
            let found = self.read(path);
            match self.target.on_conflict {
                OnConflict::Overwrite => assert!(texts.contains(&found), "{path}: {found}"),
                _ => assert_eq!(sorted(&found), sorted(&texts.concat()), "{path}"),
            }
        }
        assert_eq!(self.read("labels"), "same");
        assert!(self.target.output.join("made").is_dir());
        files.entry("labels".into()).or_default();
        files.entry("rows.txt".into()).or_default();
        if self.target.on_conflict != OnConflict::Error {
            files.entry("log".into()).or_default();
            let log = self.read("log");
            let once: BTreeSet<_> = log.lines().collect();
            assert_eq!(once.len(), log.lines().count(), "{log}");
            let has = |worker: &WorkerId| once.contains(worker.to_string().as_str());
            let shown = self.last_workers.iter().filter(|worker| has(worker)).count();
            let all = self.target.on_conflict == OnConflict::Append;
            let known = self.last_workers.len();
            assert!(shown >= if all { known } else { known.min(1) }, "{log}");
        }
        let names = walkdir::WalkDir::new(&self.target.output).into_iter().flatten();
        let names = names.filter(|entry| entry.file_type().is_file()).map(|entry| {
            entry.path().strip_prefix(&self.target.output).unwrap().display().to_string()
        });
        assert_eq!(names.collect::<BTreeSet<_>>(), files.into_keys().collect::<BTreeSet<_>>());
        assert_eq!(self.journal().finished().unwrap(), Some(JobStatus::Completed));
    }

    fn damage(&mut self) {
        let output = self.target.output.join("rows.txt");
        let mut parts: Vec<_> =
            fs::read_dir(self.target.job_dir.parts()).unwrap().map(|e| e.unwrap().path()).collect();
        parts.sort();
        let part = |number: usize| parts.get(number % parts.len().max(1));
        let cut = |path: &Path, share: f64| {
            if let Ok(file) = OpenOptions::new().write(true).open(path) {
                let length = file.metadata().unwrap().len();
                file.set_len((length as f64 * share) as u64).unwrap();
            }
        };
        match self.damage_steps.pop() {
            None => {}
            Some(Damage::CutPart(number, share)) => {
                part(number).into_iter().for_each(|path| cut(path, share));
            }
            Some(Damage::RemovePart(number)) => {
                part(number).into_iter().for_each(|path| fs::remove_file(path).unwrap());
            }
            Some(Damage::CutOutput(share)) => cut(&output, share),
            Some(Damage::ChangeOutput(share)) => {
                // What was put on the disk is believed to be there, so a copy stands in its place.
                if let Ok(mut bytes) = fs::read(&output) {
                    let at = (bytes.len() as f64 * share) as usize;
                    bytes.iter_mut().skip(at).take(3).for_each(|byte| *byte ^= 1);
                    let copy = output.with_extension("copy");
                    fs::write(&copy, bytes).unwrap();
                    fs::rename(copy, &output).unwrap();
                }
            }
            Some(Damage::RemoveOutput) => drop(fs::remove_file(&output)),
            Some(Damage::ExtendOutput) => {
                let file =
                    OpenOptions::new().create(true).truncate(false).write(true).open(&output);
                let file = file.unwrap();
                let length = file.metadata().unwrap().len();
                file.write_all_at(b"garbage that nobody wrote\n", length).unwrap();
            }
        }
    }
}

fn commit(store: &mut Store, mut requests: Vec<CommitRequest>) {
    while !requests.is_empty() {
        let done = store.commit(requests).unwrap();
        assert_eq!(done.rejected, []);
        requests = done.postponed;
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

const KINDS: [(bool, OnConflict); 6] = [
    (false, OnConflict::Error),
    (true, OnConflict::Error),
    (false, OnConflict::Append),
    (true, OnConflict::Append),
    (false, OnConflict::Overwrite),
    (true, OnConflict::Overwrite),
];

/// How often an undisturbed run passes any point, at most.
const MOST: u32 = 400;

#[test]
fn undisturbed_jobs_pass_every_point() {
    let mut points = BTreeSet::new();
    for (ordered, on_conflict) in KINDS {
        let mut world = World::new(ordered, on_conflict);
        world.run();
        world.check();
        // Taken up once more, nothing changes.
        world.run();
        world.check();
        points.extend(fail_point::passed());
    }
    let points: Vec<_> = points.into_iter().collect();
    insta::assert_snapshot!(points.join("\n"), @"
    all-synced
    appended-files-synced
    checkpoint-noted
    file-appended
    file-moved
    file-replaced
    files-published
    files-replaced
    files-synced
    finished
    folder-published
    folder-removed
    header-written
    held-appended
    journaled
    left-all-published
    left-journaled
    left-published
    lost-taken-out
    output-synced
    parts-synced
    replacement-forgotten
    replacement-synced
    rows-appended
    rows-appending
    ");
}

/// One crash at every point, with and without loss of what was not synced.
#[test]
fn a_crash_at_any_point_changes_nothing() {
    for (ordered, on_conflict) in KINDS {
        // What a power loss leaves is the harder case, so the other one is tried less often.
        for (cut, step) in [("", 4), (":cut", 1)] {
            let crashed = |count: &u32| {
                let mut world = World::new(ordered, on_conflict);
                let at = format!("*:{count}{cut}");
                let crashed = fail_point::crash_at(&at, || world.run()).is_none();
                if crashed {
                    world.run();
                }
                world.check();
                crashed
            };
            let points = (1..MOST).step_by(step).take_while(crashed).count() * step;
            assert!((30..MOST as usize - step).contains(&points), "{points}");
        }
    }
}

/// A second crash while the first is being recovered from.
#[test]
fn a_crash_while_recovering_changes_nothing() {
    for (ordered, on_conflict) in KINDS {
        for first in (2..120).step_by(9) {
            for second in (1..12).step_by(2) {
                let mut world = World::new(ordered, on_conflict);
                if fail_point::crash_at(&format!("*:{first}:cut"), || world.run()).is_some() {
                    break;
                }
                if fail_point::crash_at(&format!("*:{second}"), || world.run()).is_none() {
                    world.run();
                }
                world.check();
            }
        }
    }
}

fn damages() -> impl Strategy<Value = Damage> {
    let share = 0.0..1.0;
    prop_oneof![
        4 => (any::<usize>(), share.clone()).prop_map(|(n, share)| Damage::CutPart(n, share)),
        1 => any::<usize>().prop_map(Damage::RemovePart),
        2 => share.clone().prop_map(Damage::CutOutput),
        2 => share.prop_map(Damage::ChangeOutput),
        1 => Just(Damage::RemoveOutput),
        1 => Just(Damage::ExtendOutput),
    ]
}

#[test]
fn rows_that_are_nowhere_are_taken_out_with_their_files() {
    for (ordered, on_conflict) in KINDS {
        let mut world = World::new(ordered, on_conflict);
        // All rows and files are committed, and the second worker's rows are lost everywhere.
        assert!(fail_point::crash_at("left-all-published", || world.run()).is_none());
        fs::remove_file(world.target.job_dir.part_file(WorkerId(1))).unwrap();
        let output = world.target.output.join("rows.txt");
        let text = fs::read_to_string(&output).unwrap().replace("5 a", "5 x").replace("1 b", "1 y");
        fs::remove_file(&output).unwrap();
        fs::write(&output, text).unwrap();
        let (store, restored) = recover(world.target.clone(), world.journal(), false).unwrap();
        let gone: Vec<_> =
            (0..9).filter(|id| !restored.finished.contains(MiniBatchId(*id))).collect();
        assert_eq!(gone, [1, 5]);
        drop(store);
        world.run();
        world.check();
    }
}

/// Where the child of the next test works.
const CHILD: &str = "SANDMILL_TEST_CRASH_CHILD";

/// The same with a process that kills itself, as through the environment.
#[test]
fn a_killed_process_is_recovered_from() {
    let (ordered, on_conflict) = (true, OnConflict::Append);
    if let Some(path) = std::env::var_os(CHILD) {
        return World::at(path.as_ref(), ordered, on_conflict).run();
    }
    for at in ["files-synced", "journaled:2", "rows-appended:3:cut", "*:30:cut", "finished"] {
        let mut world = World::new(ordered, on_conflict);
        let name = "engine::commit::crash_tests::a_killed_process_is_recovered_from";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD, world.target.job_dir.root())
            .env("SANDMILL_FAIL_POINT", at)
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGKILL), "{at}: {child:?}");
        world.run();
        world.check();
    }
}

/// Each costs a few hundredths of a millisecond. Time is bounded so that a slow machine passes, and
/// work that grows with the square of their number does not.
#[test]
fn a_hundred_thousand_mini_batches_cost_little() {
    for ordered in [false, true] {
        let world = World::new(ordered, OnConflict::Error);
        let (mut store, _) = recover(world.target.clone(), world.journal(), false).unwrap();
        let rows = "a row\n".repeat(100_000);
        let worker = WorkerId(0);
        fs::write(world.target.job_dir.part_file(worker), &rows).unwrap();
        let request = |id: u64| {
            let checksum = crc32fast::hash(b"a row\n");
            let segment = Segment { offset: 6 * id, length: 6, checksum, rows: 1 };
            let items = ItemCounts::from_returned(1, 1);
            let (id, header) = (MiniBatchId(id), None);
            let (attempt, has_files, stamp) = (1, false, id.0);
            let success = Success { worker, id, attempt, items, segment, header, has_files, stamp };
            CommitRequest::Success(success)
        };
        let begun = Instant::now();
        for group in 0..200 {
            commit(&mut store, (group * 500..(group + 1) * 500).map(request).collect());
        }
        let committed = begun.elapsed();
        drop(store);
        let begun = Instant::now();
        let (_store, restored) = recover(world.target.clone(), world.journal(), false).unwrap();
        let recovered = begun.elapsed();
        eprintln!("ordered {ordered}: committed in {committed:?}, taken up in {recovered:?}");
        assert_eq!(restored.succeeded, 100_000);
        assert_eq!(world.read("rows.txt"), rows);
        assert!(committed.as_secs() < 30 && recovered.as_secs() < 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..Default::default() })]

    /// Any number of crashes, and damage to part files and output in between.
    #[test]
    fn damage_costs_time_and_no_rows(
        kind in 0..KINDS.len(),
        crashes in prop::collection::vec((1_u32..60, any::<bool>()), 1..5),
        damage in prop::collection::vec(damages(), 0..4),
    ) {
        let (ordered, on_conflict) = KINDS[kind];
        let mut world = World::new(ordered, on_conflict);
        world.damage_steps = damage;
        for (count, cut) in crashes {
            let at = format!("*:{count}{}", if cut { ":cut" } else { "" });
            if fail_point::crash_at(&at, || world.run()).is_some() {
                world.check();
                return Ok(());
            }
            world.damage();
        }
        world.run();
        world.check();
    }
}
