//! Jobs with a `job_store`. The machine with the job directory is lost, and another one continues the job.
//! Each machine is a job directory. The output and the job store are in the folder that they share.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, guest, root, sandmill, texts};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const FAIL_POINT: &str = "SANDMILL_FAIL_POINT";

/// A job with rows and files, from six mini-batches.
pub(crate) fn job() -> TestJob {
    let job = TestJob::new(&guest("writes_files")).yaml(
        "inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 9\n\
         output: shared/out\njob_store: shared/jobs",
    );
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    (0..6).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// Runs the job on the machine with this job directory.
pub(crate) fn run_on(job: TestJob, machine: &str, options: &[&str]) -> Ran {
    job.command(&[&["run", "job.yaml", "--job-dir", machine], options].concat())
}

/// Runs the job on the machine, and kills it at the fail point.
pub(crate) fn killed_at(job: TestJob, point: &str, machine: &str, options: &[&str]) -> TestJob {
    let ran = run_on(job.env(FAIL_POINT, point), machine, options);
    assert_eq!(ran.code, -9, "{point}: {ran}");
    ran.into_job().env(FAIL_POINT, "")
}

/// A command of Sandmill in the folder of another job, to run beside it.
pub(crate) fn sandmill_in(folder: &Path) -> Command {
    let mut command = Command::new(sandmill());
    command.current_dir(folder).env("SANDMILL_CACHE_DIR", root().join("target/test-cache"));
    command
}

/// The rows in the output, sorted.
pub(crate) fn rows(ran: &Ran) -> Vec<String> {
    rows_in(&ran.dir().join("shared/out"))
}

/// The rows in an output folder, sorted. They may be in a file or in a folder of parts.
pub(crate) fn rows_in(output: &Path) -> Vec<String> {
    let path = output.join("parallel_run_step.txt");
    let parts: Vec<_> = match fs::read_dir(path.with_extension("")) {
        Ok(parts) => parts.map(|part| part.unwrap().path()).collect(),
        Err(_) => vec![path],
    };
    let text: String = parts.iter().map(|part| fs::read_to_string(part).unwrap()).collect();
    let mut rows: Vec<_> = text.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// Fails if the output does not have each row and each file once, or has anything else.
#[track_caller]
pub(crate) fn assert_complete(ran: &Ran, has_rows: bool) {
    let expected = if has_rows { 0..6 } else { 0..0 };
    if has_rows {
        let expected: Vec<String> = expected.map(|n| format!("{n}.txt: {n}")).collect();
        assert_eq!(rows(ran), expected, "{ran}");
    }
    for number in 0..6 {
        assert_eq!(ran.text(&format!("shared/out/{number}.txt.out")), number.to_string());
        assert!(ran.has(&format!("shared/out/batches/{number}.txt")), "{ran}");
    }
    let found: BTreeSet<String> = fs::read_dir(ran.dir().join("shared/out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found.len(), 6 + 1 + usize::from(has_rows), "{found:?}\n{ran}");
}

/// Loses the first machine at the given fail point, and the second one at another, if they get there. Returns
/// whether the first one was lost.
fn lose_machines(job: TestJob, point: &str, again: &str, has_rows: bool) -> bool {
    let lose = |ran: &Ran, machine: &str| {
        assert!([-9, 0].contains(&ran.code) && ran.left_over.is_empty(), "{ran}");
        let is_lost = ran.code == -9;
        if is_lost {
            fs::remove_dir_all(ran.dir().join(machine)).unwrap();
        }
        is_lost
    };
    let ran = run_on(job.env(FAIL_POINT, point), "first", &[]);
    let is_lost = lose(&ran, "first");
    if !is_lost {
        assert_complete(&ran, has_rows);
        return false;
    }
    let ran = run_on(ran.into_job().env(FAIL_POINT, again), "second", &[]);
    if lose(&ran, "second") {
        let ran = run_on(ran.into_job().env(FAIL_POINT, ""), "third", &[]);
        ran.exits_with(0);
        assert_complete(&ran, has_rows);
    } else {
        assert_complete(&ran, has_rows);
    }
    true
}

/// Two machines are lost, one after the other, at each point of the job and at some points of its
/// continuation.
#[test]
fn machines_may_be_lost_at_any_point() {
    for number in 1.. {
        let again = format!("*:{}", 1 + number % 11);
        if !lose_machines(job(), &format!("*:{number}"), &again, true) {
            assert!(number > 10, "there are more points than {number}");
            return;
        }
    }
}

/// Each kind of output, with machines that are lost while they commit and while they publish.
#[test]
fn each_kind_of_output_survives_the_loss_of_machines() {
    let kinds = [
        "ordered: true",
        "output_layout: parts",
        "output_action: summary_only",
        "output_files: append",
        "output_files: overwrite",
    ];
    let points = ["journaled:2", "log-appended:3", "files-published:2", "all-synced"];
    for kind in kinds {
        for (index, point) in points.iter().enumerate() {
            let has_rows = !kind.contains("summary_only");
            let again = points[(index + 1) % points.len()];
            assert!(lose_machines(job().yaml(kind), point, again, has_rows), "{kind}: {point}");
        }
    }
}

#[test]
fn a_job_is_continued_from_its_store() {
    let job = killed_at(job(), "journaled:3", "first", &[]);
    let records = fs::read_dir(job.path("shared/jobs/test")).unwrap().count();
    assert_eq!(records, 2, "the list of runs, and one run");
    let ran = run_on(job, "second", &[]);
    ran.exits_with(0).says("continuing it here, from its commit log in");
    assert_complete(&ran, true);
    // The job has ended, for every machine.
    let ran = run_on(ran.into_job(), "third", &[]);
    ran.exits_with(0).says("using its results");
    assert_complete(&ran, true);
    // The job directory of a lost machine appears again.
    let ran = run_on(ran.into_job(), "first", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
    // Another machine starts over.
    fs::write(ran.dir().join("in/6.txt"), "xxxxxx").unwrap();
    fs::remove_dir_all(ran.dir().join("shared/out")).unwrap();
    let ran = run_on(ran.into_job(), "fourth", &["--overwrite"]);
    ran.exits_with(0);
    assert_eq!(rows(&ran).len(), 7, "{ran}");
    // The machine with an older run continues the latest one.
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(0);
    assert_eq!(rows(&ran).len(), 7, "{ran}");
}

/// While one machine runs the job, no other one can.
#[test]
fn a_running_job_is_not_continued_elsewhere() {
    let job = texts("repeats").yaml("output: shared/out\njob_store: shared");
    fs::create_dir(job.path("shared")).unwrap();
    let mut running = job.start(&[]);
    running.until("the log has begun", |running| {
        let runs = fs::read_dir(running.dir().join("shared/test")).into_iter().flatten();
        runs.count() == 2
    });
    let mut other = sandmill_in(running.dir());
    let other = other.args(["run", "job.yaml", "--job-dir", "second"]).output().unwrap();
    let text = String::from_utf8_lossy(&other.stderr);
    assert!(text.contains(&format!("is running: process {} on", running.pid())), "{text}");
    assert_eq!(other.status.code(), Some(2));
    running.kill_leader();
    running.wait();
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |lines: &str| {
        let job = texts("run_only").yaml(lines);
        let ran = run_on(job, "first", &[]);
        ran.exits_with(2);
        ran.redacted()
    };
    insta::assert_snapshot!(refused("job_store: shared"), @"error: job.yaml:6: job_store: needs output: name a folder that the machines share, or an address in a store, too. Otherwise results go to the job directory, which is on one machine");
    insta::assert_snapshot!(refused("job_store: shared\noutput: out"), @"error: job_store: there is no folder [DIR]/shared: make it, or mount the shared folder on this machine");
    insta::assert_snapshot!(refused("job_store: job.yaml\noutput: out"), @"error: job.yaml:6: job_store: [DIR]/job.yaml is a file; name a folder");
    insta::assert_snapshot!(refused("job_store: .\noutput: test"), @"error: the output folder [DIR]/test and the job's folder in the job store, [DIR]/test, are the same or in each other: name another folder for `output` or `job_store`");
    let open = job();
    let folder = open.path("shared/jobs/test");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = run_on(open, "first", &[]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: job_store: the commit log in [DIR]/shared/jobs/test cannot be trusted: other users can write to it; name another folder for job_store, or give the job another name");
    // A job that has a log keeps it.
    let job = killed_at(job(), "journaled:2", "first", &[]);
    let job_file = fs::read_to_string(job.path("job.yaml")).unwrap();
    let store = "job_store: shared/jobs";
    fs::write(job.path("job.yaml"), job_file.replace(store, "")).unwrap();
    let ran = run_on(job, "first", &[]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: the job in [DIR]/first has a commit log in a job store, and the job file no longer names one: set job_store again, also to start over with --overwrite");
    fs::write(ran.dir().join("job.yaml"), job_file).unwrap();
    fs::remove_dir_all(ran.dir().join("shared/jobs/test")).unwrap();
    let ran = run_on(ran.into_job(), "first", &[]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: the job in [DIR]/first has a commit log in the job store, and [DIR]/shared/jobs/test has none: restore the store, or start over with --overwrite");
    let ran = run_on(ran.into_job(), "first", &["--overwrite"]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// The store fails, while the job runs. Nothing is lost.
#[test]
fn a_job_whose_store_fails_can_be_resumed() {
    let job = killed_at(job(), "journaled:1", "first", &[]);
    let run = fs::read_dir(job.path("shared/jobs/test"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| !path.ends_with("runs"))
        .unwrap();
    // The next record would have this name, and is not a record.
    let count = fs::read_dir(run.join("log")).unwrap().count();
    let next = run.join(format!("log/{count:020}"));
    fs::write(&next, "damaged").unwrap();
    let ran = run_on(job, "second", &[]);
    ran.exits_with(2).says("it is not a record of a commit log; restore the job store");
    fs::remove_file(next).unwrap();
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}
