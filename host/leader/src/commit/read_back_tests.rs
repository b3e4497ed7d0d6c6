//! Tests that the leader reads the output back and notices any change to what it committed, and that it frees
//! the space in part files once rows are copied to the output.

use super::tests::CommitFixture;
use super::*;
use crate::commit::error::OutputChange;
use crate::commit::message::ReclaimableAttempt;
use crate::commit::recover::recover;
use crate::model::{MiniBatchId, Segment, WorkerId};
use std::fs::{self, OpenOptions};
use std::path::PathBuf;

/// A job of three workers with one committed row each, and the path of the output.
fn three_rows() -> (CommitFixture, PathBuf) {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let path = bench.job.default_output().join("rows.txt");
    for id in 0..3 {
        let success = bench.success(id, u64::from(id), &format!("row {id}\n"));
        bench.submit(&success);
        bench.committer().flush();
        bench.reply();
    }
    (bench, path)
}

/// If the output changes while the job runs, the job fails. It never reports rows that are not in the output.
#[test]
fn a_changed_output_fails_the_job_and_is_repaired() {
    let finish_after = |tamper: &dyn Fn(&std::path::Path)| {
        let (mut bench, path) = three_rows();
        tamper(&path);
        let (_, replies) = bench.end_job();
        let [CommitReply::Fatal(error)] = &replies[..] else { panic!("{replies:?}") };
        let text = error.to_string();
        let text = text.split_once(": ").unwrap().0.replace(path.to_str().unwrap(), "rows.txt");
        let journal = bench.journal();
        assert_eq!(journal.finished().unwrap(), None, "the job has not completed");
        let (_, restored) = recover(bench.target(), journal, false).unwrap();
        assert_eq!(restored.succeeded, 3);
        assert_eq!(bench.output("rows.txt"), "row 0\nrow 1\nrow 2\n");
        text
    };
    let write = |at: u64| {
        move |path: &std::path::Path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"R", at).unwrap();
        }
    };
    insta::assert_snapshot!(finish_after(&write(7)), @"the output file rows.txt differs in bytes 6 up to 12 from the rows that process001 reported");
    insta::assert_snapshot!(finish_after(&write(20)), @"the output file rows.txt has 21 bytes, and 18 were written");
    // The same file with different content and length.
    insta::assert_snapshot!(finish_after(&|path| fs::write(path, "x\n").unwrap()), @"the output file rows.txt has 2 bytes, and 18 were written");
    insta::assert_snapshot!(finish_after(&|path| fs::remove_file(path).unwrap()), @"the output file rows.txt was removed, renamed or replaced while the job ran");
    let replace = |path: &std::path::Path| {
        fs::rename(path, path.with_extension("old")).unwrap();
        fs::write(path, "row 0\nrow 1\nrow 2\n").unwrap();
    };
    insta::assert_snapshot!(finish_after(&replace), @"the output file rows.txt was removed, renamed or replaced while the job ran");
}

/// If the output changes between two runs, the next start notices it, although no leader was running.
#[test]
fn an_output_that_changed_between_runs_is_repaired() {
    let (mut bench, path) = three_rows();
    let journal = bench.journal();
    fs::write(&path, "row 0\nrow X\nrow 2\n").unwrap();
    // One worker's part file is also gone.
    fs::remove_file(bench.job.part_file(WorkerId(2))).unwrap();
    let (_, restored) = recover(bench.target(), journal, false).unwrap();
    assert_eq!(
        (restored.succeeded, bench.output("rows.txt").as_str()),
        (3, "row 0\nrow 1\nrow 2\n")
    );
}

/// What is read back is compared with the checksum that the worker reported. So a wrong report is noticed in
/// the same way as a changed output.
#[test]
fn rows_with_a_wrong_checksum_fail_the_job() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let good = bench.success(0, 0, "good\n");
    bench.submit(&good);
    bench.reply();
    let bad = bench.success(1, 1, "bad\n");
    let segment = Segment { checksum: 1, ..bad.segment };
    bench.submit(&Success { segment, ..bad });
    let CommitReply::Fatal(error) = bench.reply() else { panic!("it was committed") };
    let text = error.to_string();
    let text = text.split_once(": ").unwrap().0.rsplit_once('/').unwrap().1;
    insta::assert_snapshot!(text, @"rows.txt differs in bytes 5 up to 9 from the rows that process001 reported");
    assert_eq!(bench.output("rows.txt"), "good\n");
    assert_eq!(bench.journal().counts().succeeded, 1);
}

/// Once rows are copied to the output, their worker may overwrite them in its part file. In an ordered job,
/// the rows stay in the part files instead.
#[test]
fn part_file_space_is_freed_once_rows_are_copied() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let mut target = bench.target();
    let mut reclaimable = Vec::new();
    for ordered in [false, true] {
        target.ordered = ordered;
        bench.restart_as(target.clone(), false).unwrap();
        let first = 3 * u64::from(ordered);
        for id in first..first + 3 {
            let success = bench.success(id as u32 % 2, id, &format!("{id}\n"));
            bench.submit(&success);
        }
        bench.committer().end_job(JobStatus::Failed);
        while let Some(reply) = bench.replies.blocking_recv() {
            if let CommitReply::Reclaimable(more) = reply {
                assert!(!ordered, "a resumed job may need them");
                reclaimable.extend(more);
            }
        }
    }
    let last = |worker| {
        reclaimable
            .iter()
            .rfind(|last: &&ReclaimableAttempt| last.worker == WorkerId(worker))
            .copied()
    };
    let attempt = |worker, id| ReclaimableAttempt {
        worker: WorkerId(worker),
        id: MiniBatchId(id),
        attempt: 1,
    };
    assert_eq!((last(0), last(1)), (Some(attempt(0, 2)), Some(attempt(1, 1))));
}

/// Rows that are copied to the output early are not reported or journaled before their commit.
#[test]
fn rows_copied_early_count_once_they_are_committed() {
    let mut bench = CommitFixture::new(Some("rows.txt"));
    let target = bench.target();
    let journal = bench.journal();
    let (mut store, _) = recover(target.clone(), journal, false).unwrap();
    let row = |bench: &CommitFixture, id: u64| {
        vec![CommitRequest::Success(bench.success(id as u32 % 2, id, &format!("row {id}\n")))]
    };
    for id in [0, 1] {
        assert!(store.copy(row(&bench, id)).unwrap().is_empty());
    }
    assert_eq!(bench.output("rows.txt"), "row 0\nrow 1\n");
    assert_eq!(store.journal.counts().rows, 0);
    let done = store.commit(row(&bench, 2)).unwrap();
    assert_eq!(done.committed, [0, 1, 2].map(MiniBatchId));
    let reclaimable: Vec<_> =
        done.reclaimable.iter().map(|last| (last.worker.0, last.id.0)).collect();
    assert_eq!(reclaimable, [(0, 2), (1, 1)]);
    assert_eq!(store.journal.counts().rows, 3);
    // After an interruption, and after a fatal error, rows that were only copied are removed.
    store.copy(row(&bench, 3)).unwrap();
    drop(store);
    let journal = Journal::open(&bench.job.journal()).unwrap();
    let (mut store, restored) = recover(target, journal, false).unwrap();
    assert_eq!(restored.succeeded, 3);
    assert_eq!(bench.output("rows.txt"), "row 0\nrow 1\nrow 2\n");
    store.copy(row(&bench, 4)).unwrap();
    store.give_up();
    assert_eq!(bench.output("rows.txt"), "row 0\nrow 1\nrow 2\n");
}

/// The job fails if rows are changed after they were copied early and before they are committed.
#[test]
fn rows_changed_after_the_copy_are_not_committed() {
    for at in [1, 7] {
        let (mut bench, path) = three_rows();
        let (mut store, _) = recover(bench.target(), bench.journal(), false).unwrap();
        let ahead = bench.success(0, 3, "row 3\n");
        store.copy(vec![CommitRequest::Success(ahead)]).unwrap();
        // A change shows in the file's modification time. Older kernels advance this time only every few
        // milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        let file = OpenOptions::new().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"X", 12 + at).unwrap();
        let error = store.commit(Vec::new()).unwrap_err();
        assert!(
            matches!(error, CommitError::OutputChanged { change: OutputChange::Bytes { .. }, .. }),
            "{error}"
        );
        store.give_up();
        assert_eq!(bench.output("rows.txt").len(), 18);
        assert_eq!(store.journal.counts().rows, 3);
    }
}
