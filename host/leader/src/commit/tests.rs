use super::crash_world::segment;
use super::*;
use crate::commit::message::FinalFailure;
use crate::commit::recover::recover;
use crate::files::Appender;
use crate::journal::{EntryOrder, JobIdentity, MiniBatchEnd};
use crate::model::{FailureKind, ItemCounts, JobDir, MiniBatchId, Segment, WorkerId};
use std::fs::{self, OpenOptions};
use std::io::Write;

pub(super) struct CommitFixture {
    pub(super) dir: tempfile::TempDir,
    pub(super) job: JobDir,
    pub(super) output_file: Option<String>,
    pub(super) committer: Option<Committer>,
    pub(super) replies: mpsc::UnboundedReceiver<CommitReply>,
}

pub(super) fn target(job: &JobDir, output_file: Option<&str>) -> CommitTarget {
    CommitTarget { output_file: output_file.map(str::to_owned), ..CommitTarget::sample(job) }
}

impl CommitFixture {
    pub(super) fn new(output_file: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let job = JobDir::new(dir.path());
        fs::create_dir_all(job.parts()).unwrap();
        fs::create_dir_all(job.default_output()).unwrap();
        let journal = Journal::create(&job.journal(), &JobIdentity::sample()).unwrap();
        let output_file = output_file.map(str::to_owned);
        let target = target(&job, output_file.as_deref());
        let (sender, replies) = mpsc::unbounded_channel();
        let (committer, _) = Committer::start(target, journal, false, sender).unwrap();
        let committer = Some(committer);
        Self { dir, job, output_file, committer, replies }
    }

    pub(super) fn target(&self) -> CommitTarget {
        target(&self.job, self.output_file.as_deref())
    }

    pub(super) fn committer(&self) -> &Committer {
        self.committer.as_ref().unwrap()
    }

    /// Does a worker's work: appends the rows to its part file, and reports.
    pub(super) fn success(&self, worker: u32, id: u64, rows: &str) -> Success {
        let worker = WorkerId(worker);
        let part = OpenOptions::new().create(true).append(true).open(self.job.part_file(worker));
        let mut part = part.unwrap();
        let offset = part.metadata().unwrap().len();
        part.write_all(rows.as_bytes()).unwrap();
        let segment = segment(offset, rows);
        let items = ItemCounts::from_returned(2, segment.rows);
        Success {
            worker,
            id: MiniBatchId(id),
            items,
            is_short: items.failed > 0,
            segment,
            ..Success::sample()
        }
    }

    pub(super) fn with_file(&self, mut success: Success, name: &str) -> Success {
        let path = self.job.staged(success.worker, success.id, success.attempt).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("of {}", success.id)).unwrap();
        success.has_files = true;
        success
    }

    pub(super) fn submit(&self, success: &Success) {
        self.committer().submit(CommitRequest::Success(success.clone()));
    }

    pub(super) fn reply(&mut self) -> CommitReply {
        loop {
            let reply = self.replies.blocking_recv();
            match reply.expect("the committer ended without a reply") {
                CommitReply::Reclaimable(_) => {}
                reply => return reply,
            }
        }
    }

    /// Ends the committer, and returns all its replies, with sorted ids.
    pub(super) fn end_job(&mut self) -> (Vec<u64>, Vec<CommitReply>) {
        self.committer().end_job(JobStatus::Completed);
        let mut ids = Vec::new();
        let mut other = Vec::new();
        while let Some(reply) = self.replies.blocking_recv() {
            match reply {
                CommitReply::Committed(more) => ids.extend(more.iter().map(|id| id.0)),
                CommitReply::Finished | CommitReply::Reclaimable(_) => {}
                reply => other.push(reply),
            }
        }
        ids.sort_unstable();
        (ids, other)
    }

    /// The journal, after the committer has closed it.
    pub(super) fn journal(&mut self) -> Journal {
        self.committer = None;
        Journal::open(&self.job.journal()).unwrap()
    }

    pub(super) fn output(&self, name: &str) -> String {
        fs::read_to_string(self.job.default_output().join(name)).unwrap()
    }
}

/// The output, rebuilt only from the journal and the part files.
fn rebuilt(job: &JobDir, journal: &Journal) -> Vec<u8> {
    let mut bytes = Vec::new();
    let visit = |committed: crate::journal::Committed| {
        if let MiniBatchEnd::Succeeded { segment, .. } = committed.entry.end {
            assert_eq!(committed.output_offset, bytes.len() as u64);
            let part = fs::read(job.part_file(committed.entry.worker.unwrap())).unwrap();
            let begin = segment.offset as usize;
            let rows = &part[begin..begin + segment.length as usize];
            assert_eq!(crc32fast::hash(rows), segment.checksum);
            bytes.extend_from_slice(rows);
        }
    };
    journal.for_each(EntryOrder::Commit, visit).unwrap();
    bytes
}

/// Rules O4, O9 and W12 in docs/parallel-run-step.md.
#[test]
fn every_row_appears_once_at_its_journaled_position() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    for id in 0..2_000 {
        let rows = format!("{id},a\n{id},b\n").repeat(id as usize % 3);
        let success = bench.success(id as u32 % 3, id, &rows);
        bench.submit(&success);
    }
    let (ids, other) = bench.end_job();
    assert_eq!(ids, (0..2_000).collect::<Vec<_>>());
    assert_eq!(other, []);
    let journal = bench.journal();
    assert_eq!(journal.finished().unwrap(), Some(JobStatus::Completed));
    let output = bench.output("rows.txt");
    assert_eq!(output.as_bytes(), rebuilt(&bench.job, &journal));
    assert_eq!(output.lines().count() as u64, journal.counts().rows);
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    // Two of three mini-batches return rows. Each of them has two different lines, which occur once or twice.
    assert_eq!(lines.len(), 2 * (2_000 - 667));
}

#[test]
fn mini_batches_are_journaled_before_they_are_reported() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let success = bench.success(0, 7, "row\n");
    bench.submit(&success);
    assert_eq!(bench.reply(), CommitReply::Committed(vec![MiniBatchId(7)]));
    // The journal as a crash at this moment would leave it.
    let crash = bench.dir.path().join("crash.sqlite");
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", bench.job.journal().display());
        fs::copy(from, format!("{}{suffix}", crash.display())).unwrap();
    }
    assert_eq!(Journal::open(&crash).unwrap().counts().succeeded, 1);
    assert_eq!(bench.output("rows.txt"), "row\n");
}

#[test]
fn flush_commits_a_lone_request_at_once() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    for id in 0..3 {
        let success = bench.success(0, id, "row\n");
        bench.submit(&success);
        bench.committer().flush();
        assert_eq!(bench.reply(), CommitReply::Committed(vec![MiniBatchId(id)]));
    }
}

#[test]
fn final_failures_are_committed_too() {
    let mut bench = CommitFixture::new(None);
    let failure = FinalFailure {
        id: MiniBatchId(4),
        worker: Some(WorkerId(1)),
        items: ItemCounts::from_returned(5, 0),
        failure: Failure::new(FailureKind::Timeout, "ü".repeat(10_000)),
        ..FinalFailure::sample()
    };
    bench.committer().submit(CommitRequest::Failure(failure));
    bench.committer().submit(CommitRequest::WorkerGone(WorkerId(1)));
    let success = bench.success(0, 5, "");
    bench.submit(&success);
    assert_eq!(bench.end_job(), (vec![4, 5], vec![]));
    let journal = bench.journal();
    let visit = |committed: crate::journal::Committed| {
        if let MiniBatchEnd::Failed { message, .. } = committed.entry.end {
            assert_eq!(message, "ü".repeat(2048));
        }
    };
    journal.for_each(EntryOrder::Commit, visit).unwrap();
    let counts = journal.counts();
    assert_eq!((counts.failed, counts.succeeded, counts.items.failed), (1, 1, 7));
}

/// Rule O7.
#[test]
fn files_are_published_when_their_mini_batch_is_committed() {
    let mut bench = CommitFixture::new(None);
    for (id, name) in [(0, "a/x.bin"), (1, "a/y.bin")] {
        let success = bench.with_file(bench.success(0, id, ""), name);
        bench.submit(&success);
    }
    assert_eq!(bench.end_job(), (vec![0, 1], vec![]));
    assert_eq!(
        (bench.output("a/x.bin").as_str(), bench.output("a/y.bin").as_str()),
        ("of 0", "of 1")
    );
}

#[test]
fn mini_batches_with_clashing_files_are_rejected() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    // The committer may put all of them into one group, or not: the replies are the same.
    let cases = [(0, "same"), (1, "same"), (2, "same/below"), (3, "rows.txt"), (4, "other")];
    for (id, name) in cases {
        let success = bench.with_file(bench.success(0, id, &format!("row {id}\n")), name);
        bench.submit(&success);
    }
    let (ids, rejected) = bench.end_job();
    assert_eq!(ids, [0, 4]);
    for reply in &rejected {
        let CommitReply::Rejected { id, failure } = reply else { panic!("{reply:?}") };
        assert_eq!(failure.kind, FailureKind::BadOutput, "{id}");
        assert!(!bench.job.staged(WorkerId(0), *id, 1).exists());
    }
    assert_eq!(rejected.len(), 3);
    assert_eq!(bench.output("rows.txt"), "row 0\nrow 4\n");
    assert_eq!(bench.output("same"), "of 0");
    assert_eq!(bench.journal().counts().succeeded, 2);
}

#[test]
fn missing_rows_are_rejected_before_anything_is_journaled() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    // In an ordered job, rows are still needed in the part files after their commit.
    let target = CommitTarget { ordered: true, ..bench.target() };
    bench.restart_as(target, false).unwrap();
    let good = bench.success(0, 0, "good\n");
    bench.submit(&good);
    let half = bench.success(0, 1, "half a line");
    let beyond = Segment { offset: 5, length: 1000, ..good.segment };
    let endless = Segment { offset: u64::MAX, length: 2, ..good.segment };
    let again = good.segment;
    bench.submit(&half);
    for (id, segment) in [(2, beyond), (3, endless), (4, again)] {
        bench.submit(&Success { id: MiniBatchId(id), segment, ..good.clone() });
    }
    bench.submit(&Success { id: MiniBatchId(5), worker: WorkerId(9), ..good.clone() });
    std::os::unix::fs::symlink("/etc/passwd", bench.job.part_file(WorkerId(8))).unwrap();
    bench.submit(&Success { id: MiniBatchId(6), worker: WorkerId(8), ..good });
    let (ids, rejected) = bench.end_job();
    assert_eq!(ids, [0]);
    let texts: Vec<_> = rejected
        .iter()
        .map(|reply| match reply {
            CommitReply::Rejected { id, failure } => format!("{id}: {failure}"),
            reply => panic!("{reply:?}"),
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    1: process000 reported rows that its part file does not hold: they do not end with a line end
    2: process000 reported rows that its part file does not hold: 1000 bytes at offset 5, but the file has 16
    3: process000 reported rows that its part file does not hold: 2 bytes at offset 18446744073709551615, but the file has 16
    4: process000 reported rows that its part file does not hold: the bytes at offset 0 are rows of another attempt (0 to 5)
    5: process009 reported rows that its part file does not hold: the file cannot be opened (No such file or directory (os error 2))
    6: process008 reported rows that its part file does not hold: the file cannot be opened (Too many levels of symbolic links (os error 40))
    ");
    assert_eq!(bench.output("rows.txt"), "good\n");
}

/// A process may have only so many open files, and a job on many machines has more workers.
#[test]
fn few_of_many_part_files_are_open() {
    const WORKERS: u32 = 1_000;
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let target = CommitTarget { ordered: true, ..bench.target() };
    bench.restart_as(target, false).unwrap();
    let open_before = fs::read_dir("/proc/self/fd").unwrap().count();
    // Without mini-batch 0, all rows stay in the part files.
    for id in 1..=2 * WORKERS {
        bench.submit(&bench.success(id % WORKERS, id.into(), "row\n"));
    }
    let mut committed = 0;
    while committed < 2 * WORKERS as usize {
        let CommitReply::Committed(ids) = bench.reply() else { panic!("a result is refused") };
        committed += ids.len();
    }
    let open = fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < open_before + 300, "{open} files are open");
    // What is known of a file does not depend on whether it is open.
    let mut again = bench.success(1, 5_000, "row\n");
    again.segment.offset = 4;
    bench.submit(&again);
    let CommitReply::Rejected { failure, .. } = bench.reply() else {
        panic!("a result counts twice")
    };
    assert!(failure.message.contains("are rows of another attempt"), "{failure}");
    bench.submit(&bench.success(0, 0, "first\n"));
    let (ids, other) = bench.end_job();
    assert_eq!((ids, other.len()), (vec![0], 0));
    assert_eq!(bench.output("rows.txt"), format!("first\n{}", "row\n".repeat(2_000)));
}

/// Whatever a worker does to its part file, only its own attempts are lost.
#[test]
fn an_invalid_part_file_fails_only_its_attempt() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let good = bench.success(0, 0, "good\n");
    bench.submit(&good);
    bench.reply();
    let job = bench.job.clone();
    let path = |worker: u32| job.part_file(WorkerId(worker));
    fs::create_dir(path(1)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path(2),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path(3)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path(4)).unwrap();
    std::os::unix::fs::symlink(path(0), path(5)).unwrap();
    for worker in 1..6 {
        let id = MiniBatchId(worker.into());
        bench.submit(&Success { worker: WorkerId(worker), id, ..good.clone() });
    }
    // The committer first sees the file with all its rows. Then the test cuts the file.
    let first = bench.success(6, 6, "one\n");
    let second = bench.success(6, 7, "two\n");
    bench.submit(&first);
    let mut reported = Vec::new();
    while !reported.contains(&CommitReply::Committed(vec![MiniBatchId(6)])) {
        bench.committer().flush();
        reported.push(bench.reply());
    }
    OpenOptions::new().write(true).open(path(6)).unwrap().set_len(4).unwrap();
    bench.submit(&second);
    // More rows than bytes, and then no rows.
    let more = bench.success(7, 8, "x\n");
    bench.submit(&Success { segment: Segment { rows: 3, ..more.segment }, ..more.clone() });
    let id = MiniBatchId(9);
    bench.submit(&Success { id, segment: Segment { rows: 0, ..more.segment }, ..more });
    let (ids, rejected) = bench.end_job();
    reported.extend(rejected);
    let failures: Vec<_> = reported
        .iter()
        .filter_map(|reply| match reply {
            CommitReply::Rejected { id, failure } => Some(format!("{id}: {failure}")),
            _ => None,
        })
        .collect();
    assert_eq!((ids, failures.len()), (vec![], 8), "{reported:#?}");
    assert!(
        failures.iter().all(|text| text.contains("its part file does not hold")),
        "{failures:?}"
    );
    assert_eq!(bench.output("rows.txt"), "good\none\n");
}

/// The path of an attempt's files may hold anything.
#[test]
fn an_invalid_staged_folder_fails_only_its_attempt() {
    let mut bench = CommitFixture::new(None);
    for id in 0..3 {
        let success = bench.with_file(bench.success(0, id, ""), &format!("f{id}"));
        let staged = bench.job.staged(WorkerId(0), MiniBatchId(id), 1);
        if id < 2 {
            fs::remove_dir_all(&staged).unwrap();
        }
        match id {
            0 => std::os::unix::fs::symlink("/etc", &staged).unwrap(),
            1 => fs::write(&staged, "").unwrap(),
            _ => {}
        }
        bench.submit(&success);
    }
    let (ids, rejected) = bench.end_job();
    assert_eq!((ids, rejected.len()), (vec![2], 2), "{rejected:?}");
    assert_eq!(fs::read_dir(bench.job.default_output()).unwrap().count(), 1);
}

#[test]
fn a_mini_batch_committed_twice_is_fatal() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let first = bench.success(0, 3, "first\n");
    bench.submit(&first);
    bench.reply();
    let late = bench.success(1, 3, "late\n");
    bench.submit(&late);
    let CommitReply::Fatal(error) = bench.reply() else { panic!() };
    assert!(error.to_string().contains("a late attempt must not be committed"), "{error}");
    // The committer takes no further requests, and submitting does not block.
    for id in 10..10_000 {
        bench.submit(&Success { id: MiniBatchId(id), ..first.clone() });
    }
    assert_eq!(bench.output("rows.txt"), "first\n");
    assert_eq!(bench.journal().counts().succeeded, 1);
}

#[test]
fn a_full_disk_is_fatal_and_the_job_can_resume() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let target = bench.target();
    let success = bench.success(0, 0, "row\n");
    let journal = bench.journal();
    let (mut store, _) = recover(target.clone(), journal, false).unwrap();
    store.write_rows_to(Appender::to_full_disk());
    let error = store.commit(vec![CommitRequest::Success(success)]).unwrap_err();
    assert!(error.to_string().contains("No space left on device"), "{error}");
    drop(store);
    // Nothing of the group is committed: the mini-batch runs again when the disk has space.
    let journal = Journal::open(&bench.job.journal()).unwrap();
    assert_eq!(journal.counts().rows, 0);
    let (mut store, restored) = recover(target, journal, false).unwrap();
    assert_eq!((restored.succeeded, restored.next_worker), (0, 1));
    let success = bench.success(1, 0, "row\n");
    store.commit(vec![CommitRequest::Success(success)]).unwrap();
    assert_eq!(bench.output("rows.txt"), "row\n");
}

#[test]
fn dropping_the_committer_keeps_what_was_submitted() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    for id in 0..100 {
        let success = bench.success(0, id, "row\n");
        bench.submit(&success);
    }
    let journal = bench.journal();
    assert_eq!(journal.counts().rows, 100);
    assert_eq!(journal.finished().unwrap(), None);
    assert_eq!(bench.output("rows.txt").len(), 400);
}

/// Rule O5.
#[test]
fn the_error_names_an_output_file_that_exists() {
    let bench = CommitFixture::new(None);
    fs::write(bench.job.default_output().join("rows.txt"), "").unwrap();
    let target = CommitTarget { output_file: Some("rows.txt".into()), ..bench.target() };
    let journal =
        Journal::create(&bench.dir.path().join("new.sqlite"), &JobIdentity::sample()).unwrap();
    let (sender, _replies) = mpsc::unbounded_channel();
    let error = Committer::start(target, journal, false, sender).unwrap_err();
    assert!(error.to_string().contains("output/rows.txt"), "{error}");
}

/// If a disk hangs, the user is notified, and the leader waits.
#[test]
fn a_slow_end_is_reported_and_awaited() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (replies, mut received) = tokio::sync::mpsc::unbounded_channel();
    let mut reported = 0;
    let ended = runtime.block_on(async {
        let patience = std::time::Duration::from_millis(1);
        last_reply(&mut received, (patience, FAR), &mut |_| {
            reported += 1;
            if reported == 3 {
                replies.send(CommitReply::Committed(Vec::new())).unwrap();
                replies.send(CommitReply::Finished).unwrap();
            }
        })
        .await
    });
    assert_eq!((ended, reported), (Some(Ok(())), 3));
    drop(replies);
    let ended = runtime.block_on(last_reply(&mut received, (FAR, FAR), &mut |_| ()));
    assert_eq!(ended, Some(Err(CommitError::BrokeDown)));
}

const FAR: std::time::Duration = std::time::Duration::from_secs(600);
