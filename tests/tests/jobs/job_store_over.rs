//! Jobs with a `job_store` that start over, change, or return in an old state. Each machine is a job directory.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use crate::job_store::{assert_complete, job, killed_at, rows, rows_in, run_on, sandmill_in};
use rustix::fs::{FlockOperation, flock};
use sandmill_tests::{Ran, TestJob, guest, texts};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Only one job of a name can have its log in a job store, also if it starts over.
#[test]
fn two_jobs_of_one_name_do_not_share_a_log() {
    let killed = killed_at(job(), "journaled:2", "first", &[]);
    let other = |job: TestJob, options: &[&str]| {
        let options = [&["--set", "output=shared/other"], options].concat();
        let ran = run_on(job, "second", &options);
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: the job store already has a job 'test', with the output [DIR]/shared/out (its commit log is in [DIR]/shared/jobs/test): give this job another name or another job_store");
        }
        ran.into_job()
    };
    let job = other(other(killed, &[]), &["--overwrite"]);
    let ran = run_on(job, "third", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// A run with `--overwrite` ends the log of the earlier run before it removes anything. If it is killed then,
/// the earlier run does not come back by accident.
#[test]
fn an_interrupted_overwrite_ends_the_earlier_run() {
    let job = killed_at(job(), "journaled:2", "first", &[]);
    fs::remove_dir_all(job.path("shared/out")).unwrap();
    let job = killed_at(job, "earlier-run-superseded", "first", &["--overwrite"]);
    let ran = run_on(job, "first", &[]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: the run in [DIR]/first no longer counts: its commit log in [DIR]/shared/jobs/test was ended, by a run with --overwrite that was interrupted, or because the job did not begin; run the job again with --overwrite");
    let ran = run_on(ran.into_job(), "first", &["--overwrite"]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// The output of the earlier run is known from its log, so another machine can start over.
#[test]
fn another_machine_can_start_over() {
    let job = texts("run_only").yaml("output: shared/out\njob_store: shared/jobs");
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let ran = run_on(job, "first", &[]);
    ran.exits_with(0);
    let before = rows(&ran);
    let ran = run_on(ran.into_job(), "second", &["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(rows(&ran), before);
    // A completed job is not run again without being asked.
    let ran = run_on(ran.into_job(), "third", &["--no-reuse"]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: job 'test' was completed from another job directory, and its results went to [DIR]/shared/out (its commit log is in [DIR]/shared/jobs/test): use --overwrite to run it again");
    // A damaged log does not prevent it.
    for log in log_files(&ran) {
        fs::write(log, "damaged").unwrap();
    }
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(2).says("the job store is damaged").says("run the job again with --overwrite");
    let ran = run_on(ran.into_job(), "second", &["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(rows(&ran), before);
}

/// A job that never began leaves no log that another machine would continue.
#[test]
fn a_job_that_never_began_is_not_continued() {
    let job = TestJob::new(&guest("run_only")).yaml(
        "inputs: {texts: {path: in.db, format: sqlite, query: SELECT 1 AS a}}\n\
         output: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let ran = run_on(job.file("in.db", "not a database"), "first", &[]);
    ran.exits_with(2).says("did not begin");
    assert!(!ran.has("first"), "{ran}");
    let job_file = fs::read_to_string(ran.dir().join("job.yaml")).unwrap();
    let job_file = job_file.replace("sqlite, query: SELECT 1 AS a", "files");
    fs::write(ran.dir().join("job.yaml"), job_file).unwrap();
    let ran = run_on(ran.into_job(), "second", &[]);
    assert!(!ran.exits_with(0).messages().contains("continuing"), "{ran}");
    assert_eq!(rows(&ran).len(), 1);
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
}

/// Two jobs of one name start at once, with different outputs. One of them runs, undisturbed.
#[test]
fn of_two_jobs_that_start_at_once_one_runs() {
    let one = job();
    let other = one.path("other.yaml");
    let text = fs::read_to_string(one.path("job.yaml")).unwrap();
    fs::write(&other, text.replace("shared/out", "shared/other")).unwrap();
    let start = |file: &str, machine: &str| {
        sandmill_in(one.dir()).args(["run", file, "--job-dir", machine]).output().unwrap()
    };
    let codes = std::thread::scope(|scope| {
        let second = scope.spawn(|| start("other.yaml", "second"));
        let first = start("job.yaml", "first");
        [first.status.code(), second.join().unwrap().status.code()]
    });
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    let output = if codes[0] == Some(0) { "shared/out" } else { "shared/other" };
    assert_eq!(rows_in(&one.path(output)).len(), 6);
}

/// The job directory is restored from a backup, or emptied, in place. So it is the same folder as before, without
/// the files that its workers left since.
#[test]
fn a_job_directory_that_was_restored_in_place_does_no_harm() {
    for is_restored in [true, false] {
        let job = killed_at(job(), "journaled:1", "first", &[]);
        let (first, backup) = (job.path("first"), job.path("backup"));
        copy(&first, &backup);
        let job = killed_at(job, "journaled:2", "first", &[]);
        empty(&first);
        if is_restored {
            copy(&backup.join("."), &first);
        }
        let ran = run_on(job, "first", &[]);
        ran.exits_with(0);
        assert_complete(&ran, true);
    }
}

/// The journal of the second machine was made from the log, and is made from it again.
#[test]
fn a_continued_job_directory_may_be_emptied() {
    let job = killed_at(job(), "journaled:1", "first", &[]);
    let job = killed_at(job, "journaled:3", "second", &[]);
    empty(&job.path("second"));
    let ran = run_on(job, "second", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// A job begins without a store, and gets one later. Its files still wait to be published.
#[test]
fn a_job_can_get_a_store_later() {
    for point in ["run-announced", "log-led", "journaled"] {
        let with_store = job();
        let text = fs::read_to_string(with_store.path("job.yaml")).unwrap();
        let without = text.replace("job_store: shared/jobs", "");
        fs::write(with_store.path("job.yaml"), without).unwrap();
        let job = killed_at(with_store, "journaled:2", "first", &[]);
        fs::write(job.path("job.yaml"), text).unwrap();
        let job = killed_at(job, point, "first", &[]);
        let machine = if point == "run-announced" { "first" } else { "second" };
        let ran = run_on(job, machine, &[]);
        ran.exits_with(0);
        assert_complete(&ran, true);
    }
}

/// The leader is killed between the list of runs and its log.
#[test]
fn a_run_without_records_begins_its_log_later() {
    for machine in ["first", "second"] {
        let job = killed_at(job(), "run-announced", "first", &[]);
        let ran = run_on(job, machine, &[]);
        ran.exits_with(0);
        assert_complete(&ran, true);
    }
}

/// A leader is killed before its log has a record. Another one is killed after it has superseded that run, and before
/// its own log has a record.
#[test]
fn a_run_that_was_superseded_before_it_began_is_started_anew() {
    for machine in ["first", "second", "third"] {
        let job = killed_at(job(), "run-announced", "first", &[]);
        let job = killed_at(job, "earlier-run-superseded", "second", &[]);
        let ran = run_on(job, machine, &[]);
        ran.exits_with(0);
        assert_complete(&ran, true);
    }
}

/// Without its store, a job cannot start over: another machine would continue its log.
#[test]
fn a_job_does_not_start_over_without_its_store() {
    let job = killed_at(job(), "journaled:1", "first", &[]);
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    fs::write(job.path("job.yaml"), text.replace("job_store: shared/jobs", "")).unwrap();
    let ran = run_on(job, "first", &["--overwrite"]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: the job in [DIR]/first has a commit log in a job store, and the job file no longer names one: set job_store again, also to start over with --overwrite");
}

/// A run with `--overwrite` is lost at any step, with its machine or without it.
#[test]
fn an_interrupted_overwrite_can_be_repeated() {
    for point in [
        "job-claimed",
        "earlier-run-superseded",
        "earlier-run-removed",
        "journal-made",
        "run-announced",
    ] {
        for is_lost in [false, true] {
            let job = texts("run_only").yaml("output: shared/out\njob_store: shared/jobs");
            fs::create_dir_all(job.path("shared/jobs")).unwrap();
            let ran = run_on(job, "first", &[]);
            ran.exits_with(0);
            let before = rows(&ran);
            let job = killed_at(ran.into_job(), point, "first", &["--overwrite"]);
            let machine = if is_lost { "second" } else { "first" };
            // Without the option, an earlier run counts, or the job says what to do.
            let ran = run_on(job, machine, &[]);
            assert!([0, 2].contains(&ran.code), "{point}: {ran}");
            let ran = run_on(ran.into_job(), machine, &["--overwrite"]);
            ran.exits_with(0);
            assert_eq!(rows(&ran), before);
        }
    }
}

/// A standby machine has an older run of the job, which was started over elsewhere.
#[test]
fn a_machine_with_an_older_run_continues_the_latest_one() {
    let job = killed_at(job(), "journaled:1", "first", &[]);
    let job = killed_at(job, "journaled:1", "second", &[]);
    fs::remove_dir_all(job.path("shared/out")).unwrap();
    let job = killed_at(job, "journaled:2", "first", &["--overwrite"]);
    let ran = run_on(job, "second", &[]);
    ran.exits_with(0).says("continuing it here, from its commit log in");
    assert_complete(&ran, true);
}

/// The results of a completed job were moved away. Another machine does not compute them again without being
/// asked.
#[test]
fn results_that_were_moved_are_not_made_again_elsewhere() {
    let ran = run_on(job(), "first", &[]);
    ran.exits_with(0);
    fs::rename(ran.dir().join("shared/out"), ran.dir().join("moved")).unwrap();
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(2).says("was completed from another job directory");
}

/// A backup of the job directory was made while the leader ran, before its last record. The directory is restored
/// in place, so it lacks exactly one record, which names files.
#[test]
fn a_backup_that_lacks_one_record_does_no_harm() {
    let job = killed_at(job(), "log-led", "first", &[]);
    let (first, backup) = (job.path("first"), job.path("backup"));
    copy(&first, &backup);
    let job = killed_at(job, "journaled:1", "first", &[]);
    empty(&first);
    copy(&backup.join("."), &first);
    let ran = run_on(job, "first", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// Other machines cannot write to an output in the job directory.
#[test]
fn an_output_in_the_job_directory_is_refused() {
    let job = texts("run_only").yaml("output: first/out\njob_store: shared/jobs");
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let ran = run_on(job, "first", &[]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: the output folder [DIR]/first/out is in the job directory [DIR]/first, and a job with a job_store needs one that other machines can write to: name another folder for `output` or with --job-dir");
    assert!(!ran.has("first"), "nothing is left: {ran}");
}

/// A machine is lost while it makes its journal from the log. Then the log must be there, as with a journal.
#[test]
fn a_restore_that_was_interrupted_needs_its_log() {
    let job = killed_at(job(), "journaled:1", "first", &[]);
    let job = killed_at(job, "journal-removed", "second", &[]);
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    fs::write(job.path("job.yaml"), text.replace("job_store: shared/jobs", "")).unwrap();
    let ran = run_on(job, "second", &[]);
    ran.exits_with(2).says("the job file no longer names one");
    fs::write(ran.dir().join("job.yaml"), text).unwrap();
    fs::rename(ran.dir().join("shared/jobs/test"), ran.dir().join("away")).unwrap();
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(2).says("has a commit log in the job store, and");
    fs::rename(ran.dir().join("away"), ran.dir().join("shared/jobs/test")).unwrap();
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// What a process reads in the store stays true, because it locks the output folder first.
#[test]
fn the_output_is_locked_before_the_store_is_read() {
    let job = killed_at(job(), "journaled:1", "first", &[]);
    let _lock = lock_output(&job);
    let ran = run_on(job, "second", &["--overwrite"]);
    ran.exits_with(2).says("another running job writes to the output folder");
    assert!(!ran.has("second"), "{ran}");
    let ran = run_on(ran.into_job(), "third", &[]);
    assert!(!ran.exits_with(2).messages().contains("continuing"), "{ran}");
    assert!(!ran.has("third"), "{ran}");
}

/// Locks the output folder of a job that was killed, as its leader did.
pub(crate) fn lock_output(job: &TestJob) -> fs::File {
    let file = fs::File::open(job.path("shared/out/.sandmill-lock")).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

/// The records of all logs of the job.
fn log_files(ran: &Ran) -> Vec<PathBuf> {
    let runs = fs::read_dir(ran.dir().join("shared/jobs/test")).unwrap();
    let logs = runs.map(|run| run.unwrap().path()).filter(|run| !run.ends_with("runs"));
    let records = logs.flat_map(|log| fs::read_dir(log.join("log")).unwrap());
    records.map(|record| record.unwrap().path()).collect()
}
