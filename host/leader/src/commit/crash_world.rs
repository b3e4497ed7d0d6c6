//! A small job for tests. The test plays the job's leader, workers and disk.

use super::*;
use crate::commit::message::FinalFailure;
use crate::commit::queue::may_be_copied;
use crate::commit::recover::recover;
#[cfg(test)]
use crate::commit::worker_folders::WorkerFolders;
use crate::journal::JobIdentity;
use crate::model::{ItemCounts, JobDir, MiniBatchId, OnConflict, Segment, WorkerId};
use sandmill_commit_log::{FolderStore, JobLogs};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HEADER: &str = "id letter\n";

/// A job of a few mini-batches. Each yields the same results whenever it runs.
pub(super) struct CrashWorld {
    _dir: Option<tempfile::TempDir>,
    /// The folder with the job's commit log, if the job has one.
    store: Option<PathBuf>,
    /// Whether the first machine was lost.
    #[cfg(test)]
    is_elsewhere: bool,
    pub(super) target: CommitTarget,
    mini_batches: u64,
    /// How many runs have begun. Each crash is followed by another run.
    runs: u32,
    /// The workers of the run that completed the job, if they ended normally.
    pub(super) last_workers: Vec<WorkerId>,
    pub(super) damage_steps: Vec<CrashDamage>,
    was_cut: bool,
    /// The offset at which each worker writes next. Only for workers that may overwrite rows that are in the
    /// output.
    write_offsets: RefCell<HashMap<WorkerId, u64>>,
}

/// Where rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// To one file, in the order of arrival.
    File,
    /// To one file, in the order of the input.
    Ordered,
    /// To one file per worker.
    Parts,
    /// Nowhere: mini-batches have only files.
    Nowhere,
}

impl Layout {
    #[cfg(test)]
    pub(super) const ALL: [Self; 3] = [Self::File, Self::Ordered, Self::Parts];
}

/// Damage that may happen to files while nothing runs.
#[derive(Clone, Debug)]
pub(super) enum CrashDamage {
    CutPart(usize, f64),
    RemovePart(usize),
    ChangePart(usize, f64),
    CutOutput(f64),
    ChangeOutput(f64),
    RemoveOutput,
    ExtendOutput,
}

/// The segment that a worker reports for these rows, at this offset of its part file.
pub(super) fn segment(offset: u64, rows: &str) -> Segment {
    Segment {
        offset,
        length: rows.len() as u64,
        checksum: crc32fast::hash(rows.as_bytes()),
        rows: rows.lines().count() as u64,
    }
}

impl CrashWorld {
    pub(super) fn new(layout: Layout, on_conflict: OnConflict) -> Self {
        // Use a file system in memory if possible: syncing costs nothing there.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let world = Self::in_folder(dir.path(), layout, on_conflict);
        Self { _dir: Some(dir), ..world }
    }

    /// A job with a commit log. Its output is outside the job directory.
    #[cfg(test)]
    pub(super) fn with_store(layout: Layout, on_conflict: OnConflict) -> Self {
        let mut world = Self::new(layout, on_conflict);
        let root = world.target.worker_folders.job_dir().root().canonicalize().unwrap();
        world.target.worker_folders = WorkerFolders::in_job_dir(JobDir::new(root.join("job")));
        world.target.output = root.join("out");
        fs::create_dir(&world.target.output).unwrap();
        world.store = Some(root.join("store"));
        world.make_job_dir();
        world
    }

    #[cfg(test)]
    fn make_job_dir(&self) {
        let job_dir = self.target.worker_folders.job_dir();
        for folder in [job_dir.parts(), job_dir.work()] {
            fs::create_dir_all(folder).unwrap();
        }
    }

    /// The machine with the job directory is gone. Another one has an empty job directory.
    #[cfg(test)]
    pub(super) fn lose_machine(&mut self) {
        fs::remove_dir_all(self.target.worker_folders.job_dir().root()).unwrap();
        self.make_job_dir();
        self.is_elsewhere = true;
    }

    /// The machine with the job directory is away. Another one has an empty job directory.
    #[cfg(test)]
    pub(super) fn part_with_machine(&mut self) {
        let job_dir = self.target.worker_folders.job_dir().root();
        fs::rename(job_dir, job_dir.with_extension("away")).unwrap();
        self.make_job_dir();
        self.is_elsewhere = true;
    }

    /// The machine that was away is back, and the other one is lost.
    #[cfg(test)]
    pub(super) fn machine_returns(&self) {
        let job_dir = self.target.worker_folders.job_dir().root();
        fs::remove_dir_all(job_dir).unwrap();
        fs::rename(job_dir.with_extension("away"), job_dir).unwrap();
    }

    pub(super) fn in_folder(path: &Path, layout: Layout, on_conflict: OnConflict) -> Self {
        let job_dir = JobDir::new(path);
        for folder in [job_dir.parts(), job_dir.work(), job_dir.default_output()] {
            fs::create_dir_all(folder).unwrap();
        }
        let target = CommitTarget {
            output_file: (layout != Layout::Nowhere).then(|| "rows.txt".into()),
            ordered: layout == Layout::Ordered,
            on_conflict,
            header_wanted: true,
            part_suffix: (layout == Layout::Parts).then(|| ".txt".into()),
            ..CommitTarget::sample(&job_dir)
        };
        Self {
            _dir: None,
            store: None,
            #[cfg(test)]
            is_elsewhere: false,
            target,
            mini_batches: 9,
            runs: 0,
            last_workers: Vec::new(),
            damage_steps: Vec::new(),
            was_cut: false,
            write_offsets: RefCell::default(),
        }
    }

    /// The rows of a mini-batch. Some mini-batches have none.
    fn rows(id: u64) -> String {
        format!("{id} a\n{id} b\n").repeat(id as usize % 3)
    }

    fn fails(id: u64) -> bool {
        id == 7
    }

    /// The files that a mini-batch writes, with their text.
    fn files(&self, id: u64) -> Vec<(String, String)> {
        match (id % 4, self.target.on_conflict) {
            (1, OnConflict::Error) => [format!("own/{id}"), format!("deep/er/{id}")]
                .map(|p| (p, format!("of {id}")))
                .into(),
            (1 | 2, OnConflict::Append | OnConflict::Overwrite) => {
                ["shared".to_owned(), "deep/shared".to_owned(), format!("own/{id}")]
                    .map(|p| (p, format!("of {id}\n")))
                    .into()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn journal(&self) -> Journal {
        let path = self.target.worker_folders.job_dir().journal();
        let identity = JobIdentity::sample();
        let run = self.logs().and_then(|logs| logs.latest(&logs.runs_begun().unwrap()));
        if let Some(run) = run {
            let log = Journal::catch_up(&path, &run).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            journal.lead(log, Value::Null).unwrap();
            return journal;
        }
        let opened =
            if path.exists() { Journal::open(&path) } else { Journal::create(&path, &identity) };
        let mut journal = opened.unwrap();
        if let Some(logs) = self.logs() {
            let state = journal.log_state(Value::Null).unwrap();
            let first = Journal::first_record(state);
            let runs = logs.runs_begun().unwrap();
            logs.announce(&runs, &identity.id).unwrap();
            let (log, begun) = logs.begin(&identity.id, &first).unwrap();
            journal.connect(log, begun, Value::Null).unwrap();
        }
        journal
    }

    /// Another process, on another machine, leads the job.
    #[cfg(test)]
    pub(super) fn take_over(&self) {
        let logs = self.logs().unwrap();
        let run = logs.latest(&logs.runs_begun().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let log = Journal::catch_up(&path, &run).unwrap();
        Journal::open(&path).unwrap().lead(log, Value::Null).unwrap();
    }

    fn logs(&self) -> Option<JobLogs> {
        Some(JobLogs::new(Arc::new(FolderStore::new(self.store.clone()?))))
    }

    /// Does a worker's work for a mini-batch: writes its rows and files. Returns the worker's report.
    fn work(&self, worker: WorkerId, id: u64) -> CommitRequest {
        if Self::fails(id) {
            return CommitRequest::Failure(FinalFailure {
                id: MiniBatchId(id),
                worker: Some(worker),
                stamp: id,
                ..FinalFailure::sample()
            });
        }
        let rows = self.target.output_file.as_ref().map_or_else(String::new, |_| Self::rows(id));
        // The first mini-batches have no header, so the header arrives when the output already has rows.
        let header = (id > 3).then_some(HEADER);
        let head = header.filter(|_| self.target.part_suffix.is_some() && !rows.is_empty());
        let offset = self.write(worker, head.unwrap_or_default(), &rows);
        let segment = segment(offset, &rows);
        let staged = self.target.worker_folders.job_dir().staged(worker, MiniBatchId(id), 1);
        let files = self.files(id);
        for (path, text) in &files {
            let path = staged.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        CommitRequest::Success(Success {
            worker,
            id: MiniBatchId(id),
            items: ItemCounts::from_returned(2, segment.rows),
            is_short: segment.rows < 2,
            segment,
            header: header.map(Into::into),
            has_files: !files.is_empty(),
            stamp: id,
            ..Success::sample()
        })
    }

    /// Writes rows to a worker's part file, after the header if the file is empty. Returns their offset.
    fn write(&self, worker: WorkerId, header: &str, rows: &str) -> u64 {
        let part = self.target.worker_folders.job_dir().part_file(worker);
        let part = OpenOptions::new().create(true).truncate(false).write(true).open(part).unwrap();
        let stays = self.target.ordered || self.target.part_suffix.is_some();
        let mut write_offsets = self.write_offsets.borrow_mut();
        let end = write_offsets.entry(worker).or_default();
        if stays {
            *end = part.metadata().unwrap().len();
        }
        if *end == 0 {
            part.write_all_at(header.as_bytes(), 0).unwrap();
            *end = header.len() as u64;
        }
        part.write_all_at(rows.as_bytes(), *end).unwrap();
        let offset = *end;
        *end += rows.len() as u64;
        offset
    }

    /// Does the work of a worker whose attempt will be rejected: writes half a line, and files.
    fn spoil(&self, worker: WorkerId, id: u64) -> CommitRequest {
        let offset = self.write(worker, "", "half");
        let segment = Segment { offset, length: 4, ..Segment::sample() };
        let staged = self.target.worker_folders.job_dir().staged(worker, MiniBatchId(id), 1);
        fs::create_dir_all(&staged).unwrap();
        fs::write(staged.join("shared"), "rejected").unwrap();
        CommitRequest::Success(Success {
            worker,
            id: MiniBatchId(id),
            items: ItemCounts::from_returned(2, 1),
            is_short: true,
            segment,
            header: Some("another".into()),
            has_files: true,
            stamp: id,
            ..Success::sample()
        })
    }

    /// Begins or resumes the job, and completes it.
    pub(super) fn run(&mut self) {
        let (mut store, restored) = recover(self.target.clone(), self.journal(), false).unwrap();
        let counts = store.journal.counts();
        assert_eq!(restored.ended(), counts.succeeded + counts.failed);
        assert_eq!(restored.rows, counts.rows);
        let workers = [0, 1, 2].map(|n| WorkerId(restored.next_worker + n));
        let mut ids: Vec<_> = (0..self.mini_batches).collect();
        // A different order in each run, and never the order of ids.
        let turn = (4 * self.runs as usize) % ids.len();
        ids.rotate_left(turn);
        ids.retain(|id| !restored.finished.contains(MiniBatchId(*id)));
        self.runs += 1;
        self.write_offsets.borrow_mut().clear();
        for group in ids.chunks(3) {
            // Some bad attempts come from a worker that does nothing else, and others from a worker that also
            // does good work.
            let spoiler = |id: u64| if id == 3 { workers[0] } else { workers[2] };
            let bad = group.iter().filter(|id| **id % 3 == 0);
            let bad: Vec<_> = bad.map(|id| self.spoil(spoiler(*id), *id)).collect();
            let good = group.iter().map(|id| self.work(workers[*id as usize % 2], *id));
            // Rows may be copied before the rest of their group is committed.
            let (ahead, good) = good.partition(may_be_copied);
            assert!(store.copy(ahead).unwrap().is_empty());
            commit(&mut store, bad.into_iter().chain::<Vec<_>>(good).collect());
            self.write_offsets.borrow_mut().clear();
        }
        // No workers are started if everything is done and a worker has already ended normally.
        let has_left_files =
            store.journal.files().unwrap().iter().any(|file| file.mini_batch.is_none());
        if ids.is_empty() && (has_left_files || !store.files.done.is_empty()) {
            return store.end_job(JobStatus::Completed, &mut |_| ()).unwrap();
        }
        self.last_workers.clear();
        for worker in &workers[..2] {
            let folder = self.target.worker_folders.job_dir().worker_output(*worker);
            fs::create_dir_all(folder.join("made")).unwrap();
            fs::write(folder.join("labels"), "same").unwrap();
            if self.target.on_conflict != OnConflict::Error {
                fs::write(folder.join("log"), format!("{worker}\n")).unwrap();
            }
            if self.store.is_some() {
                fs::create_dir_all(folder.join("by")).unwrap();
                fs::write(folder.join("by").join(worker.to_string()), "").unwrap();
            }
        }
        commit(&mut store, workers[..2].iter().map(|w| CommitRequest::WorkerDone(*w)).collect());
        commit(&mut store, workers.iter().map(|w| CommitRequest::WorkerGone(*w)).collect());
        self.last_workers = workers[..2].to_vec();
        store.end_job(JobStatus::Completed, &mut |_| ()).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.target.output.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The header once, then all rows of the parts. Each part must have the header.
    fn parts(&self) -> String {
        let mut joined = HEADER.to_owned();
        for entry in fs::read_dir(self.target.output.join("rows.txt")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with("part-process") && name.ends_with(".txt"), "{name}");
            let rows = fs::read_to_string(&path).unwrap();
            joined += rows.strip_prefix(HEADER).unwrap_or_else(|| panic!("no header: {rows}"));
        }
        joined
    }

    /// Checks that the output is the same as after one undisturbed run.
    pub(super) fn check(&self) {
        let wanted: Vec<_> = (0..self.mini_batches).filter(|id| !Self::fails(*id)).collect();
        if self.target.output_file.is_some() {
            self.check_rows(&wanted);
        }
        self.check_files(&wanted);
        assert_eq!(self.journal().finished().unwrap(), Some(JobStatus::Completed));
    }

    fn check_rows(&self, wanted: &[u64]) {
        let rows = match &self.target.part_suffix {
            None => self.read("rows.txt"),
            Some(_) => self.parts(),
        };
        let body = rows.strip_prefix(HEADER).unwrap_or_else(|| panic!("no header: {rows}"));
        let all_rows: String = wanted.iter().map(|id| Self::rows(*id)).collect();
        if self.target.ordered {
            assert_eq!(body, all_rows);
        }
        assert_eq!(sorted(body), sorted(&all_rows));
    }

    fn check_files(&self, wanted: &[u64]) {
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in wanted {
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
        if let Some(name) = &self.target.output_file {
            files.entry(name.clone()).or_default();
        }
        if self.target.on_conflict != OnConflict::Error {
            files.entry("log".into()).or_default();
            let log = self.read("log");
            let once: BTreeSet<_> = log.lines().collect();
            assert_eq!(once.len(), log.lines().count(), "{log}");
            let has = |worker: &WorkerId| once.contains(worker.to_string().as_str());
            let shown = self.last_workers.iter().filter(|worker| has(worker)).count();
            let keeps_all = self.target.on_conflict == OnConflict::Append;
            let known = self.last_workers.len();
            assert!(shown >= if keeps_all { known } else { known.min(1) }, "{log}");
        }
        let names = walkdir::WalkDir::new(&self.target.output).into_iter().flatten();
        let names = names.filter(|entry| entry.file_type().is_file()).map(|entry| {
            entry.path().strip_prefix(&self.target.output).unwrap().display().to_string()
        });
        let names = names.map(|name| match name.starts_with("rows.txt/") {
            true => "rows.txt".to_owned(),
            false => name,
        });
        let (by_workers, names): (BTreeSet<_>, BTreeSet<_>) =
            names.partition(|name| name.starts_with("by/"));
        assert_eq!(names, files.into_keys().collect::<BTreeSet<_>>());
        // Files of `init` from a lost machine are removed, and made again.
        #[cfg(test)]
        assert!(!self.is_elsewhere || by_workers.len() == 2, "{by_workers:?}");
        let is_shown = |worker: &WorkerId| by_workers.contains(&format!("by/{worker}"));
        assert!(self.store.is_none() || self.last_workers.iter().all(is_shown), "{by_workers:?}");
    }

    pub(super) fn damage(&mut self) {
        // Once the job has completed, no later run reads the output again, and its part files are
        // hard links of the output: damage to them would stay.
        let ended = self.journal().finished().unwrap() == Some(JobStatus::Completed);
        if ended && self.target.part_suffix.is_some() {
            return;
        }
        let output = self.target.output.join("rows.txt");
        let mut parts: Vec<_> = fs::read_dir(self.target.worker_folders.job_dir().parts())
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
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
            Some(CrashDamage::CutPart(number, share)) => {
                part(number).into_iter().for_each(|path| cut(path, share));
            }
            Some(CrashDamage::RemovePart(number)) => {
                part(number).into_iter().for_each(|path| fs::remove_file(path).unwrap());
            }
            Some(CrashDamage::ChangePart(number, share)) => {
                if let Some(path) = part(number) {
                    replace(path, changed(fs::read(path).unwrap(), share));
                }
            }
            Some(CrashDamage::CutOutput(share)) => {
                cut(&output, share);
                self.was_cut = true;
            }
            Some(CrashDamage::ChangeOutput(share)) => {
                if let Ok(bytes) = fs::read(&output) {
                    replace(&output, changed(bytes, share));
                }
            }
            Some(CrashDamage::RemoveOutput) => drop(fs::remove_file(&output)),
            // A synced file is trusted as long as it looks unchanged. A file that was cut and then extended,
            // with no run in between, would look unchanged. A folder of parts is always made again, with its
            // files.
            Some(CrashDamage::ExtendOutput) if self.was_cut || output.is_dir() => {}
            Some(CrashDamage::ExtendOutput) => {
                let file =
                    OpenOptions::new().create(true).truncate(false).write(true).open(&output);
                let file = file.unwrap();
                let length = file.metadata().unwrap().len();
                file.write_all_at(b"garbage from elsewhere\n", length).unwrap();
            }
        }
    }
}

pub(super) fn commit(store: &mut CommitState, mut requests: Vec<CommitRequest>) {
    loop {
        let done = store.commit(requests).unwrap();
        assert!(done.rejected.iter().all(|(success, _)| success.segment.length == 4));
        requests = done.postponed;
        if requests.is_empty() {
            return;
        }
    }
}

/// Replaces a file by a new one. If the old file were changed in place and looked unchanged, the
/// next run would trust it without a check.
fn replace(path: &Path, bytes: Vec<u8>) {
    let copy = path.with_extension("copy");
    fs::write(&copy, bytes).unwrap();
    fs::rename(copy, path).unwrap();
}

fn changed(mut bytes: Vec<u8>, share: f64) -> Vec<u8> {
    let at = (bytes.len() as f64 * share) as usize;
    bytes.iter_mut().skip(at).take(3).for_each(|byte| *byte ^= 1);
    bytes
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}
