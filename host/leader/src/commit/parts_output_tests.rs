//! Tests of an output with one file per worker, which the leader makes from the part files.

use super::tests::CommitFixture;
use super::*;
use crate::commit::target::OutputConversion;
use crate::files::remove_tree;
use crate::model::{MiniBatchId, WorkerId};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

fn parts(bench: &CommitFixture) -> CommitTarget {
    CommitTarget {
        output_file: Some("rows".into()),
        part_suffix: Some(".csv".into()),
        header_wanted: true,
        ..bench.target()
    }
}

/// A job whose output has one file per worker. Two workers have committed rows with a header.
fn bench() -> CommitFixture {
    let mut bench = CommitFixture::new(None);
    bench.restart_as(parts(&bench), false).unwrap();
    fs::write(bench.job.part_file(WorkerId(0)), "h\n").unwrap();
    for (worker, id, rows) in [(0, 0, "a\n"), (0, 1, "b\n"), (1, 2, "c\n")] {
        let success = bench.success(worker, id, rows);
        bench.submit(&Success { header: Some("h".into()), ..success });
    }
    bench.committer().flush();
    let mut committed = 0;
    while committed < 3 {
        let CommitReply::Committed(ids) = bench.reply() else { panic!() };
        committed += ids.len();
    }
    bench
}

/// The names in the output folder.
fn names(bench: &CommitFixture) -> Vec<String> {
    let entries = fs::read_dir(bench.job.default_output().join("rows")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn inode(path: PathBuf) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Changes the last row of a part file, but not its length.
fn spoil(bench: &CommitFixture, worker: u32) {
    let path = bench.job.part_file(WorkerId(worker));
    let text = fs::read_to_string(&path).unwrap();
    let cut = text.len() - 2;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"X", cut as u64).unwrap();
}

#[test]
fn a_part_links_or_copies_the_workers_committed_rows() {
    let mut bench = bench();
    // Rows of an attempt that fails.
    bench.success(0, 9, "half");
    assert!(!bench.job.default_output().join("rows").exists());
    bench.end_job();
    assert_eq!(names(&bench), ["part-process000.csv", "part-process001.csv"]);
    assert_eq!(bench.output("rows/part-process000.csv"), "h\na\nb\n");
    assert_eq!(bench.output("rows/part-process001.csv"), "h\nc\n");
    let is_same = |worker: u32| {
        let worker = WorkerId(worker);
        let part = bench.job.default_output().join(format!("rows/part-{worker}.csv"));
        inode(part) == inode(bench.job.part_file(worker))
    };
    assert!(is_same(0), "it was copied");
    assert!(!is_same(1), "the part file without a header was changed");
    // If the job resumes after its end, repeatedly, the part stays.
    remove_tree(&bench.job.parts()).unwrap();
    for _ in 0..3 {
        assert_eq!(bench.restart_as(parts(&bench), false).unwrap().succeeded, 3);
    }
    bench.end_job();
    assert_eq!(bench.output("rows/part-process000.csv"), "h\na\nb\n");
}

/// A compromised worker may have replaced its file by anything.
#[test]
fn part_files_with_special_permissions_or_links_are_copied() {
    use std::os::unix::fs::PermissionsExt;
    let mut bench = bench();
    let part = bench.job.part_file(WorkerId(0));
    fs::set_permissions(&part, fs::Permissions::from_mode(0o4755)).unwrap();
    bench.end_job();
    let made = bench.job.default_output().join("rows/part-process000.csv");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o7111, 0);
    assert_eq!(bench.output("rows/part-process000.csv"), "h\na\nb\n");
    let mut bench = self::bench();
    let part = bench.job.part_file(WorkerId(0));
    fs::hard_link(&part, bench.dir.path().join("another")).unwrap();
    bench.end_job();
    let made = bench.job.default_output().join("rows/part-process000.csv");
    assert_ne!(inode(made), inode(part));
}

#[test]
fn no_rows_make_an_empty_folder() {
    let mut bench = CommitFixture::new(None);
    bench.restart_as(parts(&bench), false).unwrap();
    let success = bench.success(0, 0, "");
    bench.submit(&success);
    bench.end_job();
    assert!(names(&bench).is_empty());
}

/// If rows differ from what was committed, the job fails. When it resumes, their mini-batches run again.
#[test]
fn a_part_that_changed_fails_the_job() {
    for verified_before in [false, true] {
        let mut bench = bench();
        if verified_before {
            assert_eq!(bench.restart_as(parts(&bench), false).unwrap().succeeded, 3);
            let journal = bench.journal();
            assert_eq!(journal.notes("store.verified.").unwrap().len(), 2);
            drop(journal);
            assert_eq!(bench.restart_as(parts(&bench), false).unwrap().succeeded, 3);
        }
        spoil(&bench, 1);
        let (_, replies) = bench.end_job();
        let Some(CommitReply::Fatal(error)) = replies.last() else { panic!("{replies:?}") };
        let expected = "output/rows/part-process001.csv differs in bytes 2 up to 4 from the rows that \
                    process001 reported";
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fs::read_dir(bench.job.default_output()).unwrap().count(), 0);
        assert_eq!(bench.journal().finished().unwrap(), None);
        let restored = bench.restart_as(parts(&bench), false).unwrap();
        assert_eq!(restored.succeeded, 2);
        assert!(!restored.finished.contains(MiniBatchId(2)));
        let success = bench.success(2, 2, "c\n");
        bench.submit(&Success { header: Some("h".into()), ..success });
        bench.end_job();
        assert_eq!(names(&bench), ["part-process000.csv", "part-process002.csv"]);
        assert_eq!(bench.output("rows/part-process002.csv"), "h\nc\n");
    }
}

/// Files with types are made from each worker's rows, and only when the job has completed.
#[test]
fn parts_with_types_are_made_at_the_end() {
    let mut bench = bench();
    let with_types = |bench: &CommitFixture, fails: bool| {
        let make =
            move |mut source: &File, mut target: &File, rows, on_progress: &mut dyn FnMut(u64)| {
                let mut text = String::new();
                io::Read::read_to_string(&mut source, &mut text).unwrap();
                on_progress(text.len() as u64);
                io::Write::write_all(&mut target, format!("{rows} {text}").as_bytes()).unwrap();
                if fails { Err("it is odd".into()) } else { Ok(()) }
            };
        let conversion = Some(OutputConversion { name: "rows".into(), make: Arc::new(make) });
        CommitTarget { conversion, ..parts(bench) }
    };
    bench.restart_as(with_types(&bench, false), false).unwrap();
    bench.committer().end_job(JobStatus::Failed);
    while bench.replies.blocking_recv().is_some() {}
    assert!(!bench.job.default_output().join("rows").exists());
    bench.restart_as(with_types(&bench, true), false).unwrap();
    let (_, replies) = bench.end_job();
    let Some(CommitReply::Fatal(error)) = replies.last() else { panic!("{replies:?}") };
    let text = error.to_string().replace(&bench.dir.path().display().to_string(), "DIR");
    insta::assert_snapshot!(text, @"the output file DIR/output/rows/part-process000.csv could not be made: it is odd. The rows are kept in DIR/parts/process000.part: fix the cause, then resume the job");
    bench.restart_as(with_types(&bench, false), false).unwrap();
    bench.end_job();
    assert_eq!(names(&bench), ["part-process000.csv", "part-process001.csv"]);
    assert_eq!(bench.output("rows/part-process000.csv"), "2 h\na\nb\n");
    assert_eq!(bench.output("rows/part-process001.csv"), "1 h\nc\n");
}
