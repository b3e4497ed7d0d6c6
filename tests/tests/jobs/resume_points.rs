//! These tests kill the leader between two steps while a job begins, commits or ends. They do this
//! for each pair of steps. The resumed job must have the rows and files of an undisturbed run.
//!
//! In builds with debug assertions, the leader kills itself at the fail points that `SANDMILL_FAIL_POINT`
//! names (see `host/model/src/fail_point.rs`).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, guest, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const FAIL_POINT: &str = "SANDMILL_FAIL_POINT";

/// A job with rows and files, from six mini-batches.
fn job() -> TestJob {
    let job = TestJob::new(&guest("writes_files"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 9");
    (0..6).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// The same job, but the output has a file of rows for each worker.
fn job_with_parts() -> TestJob {
    job().yaml("output_layout: parts")
}

/// Fails if the output does not have each row and each file once, or if temporary folders are left.
#[track_caller]
fn assert_complete(ran: &Ran) {
    let rows: Vec<String> = (0..6).map(|n| format!("{n}.txt: {n}")).collect();
    let is_one_file = ran.has("job/output/parallel_run_step.txt");
    let found = if is_one_file { ran.sorted_output() } else { ran.sorted_parts("") };
    assert_eq!(found, rows, "{ran}");
    for number in 0..6 {
        assert_eq!(ran.text(&format!("job/output/{number}.txt.out")), number.to_string());
        assert!(ran.has(&format!("job/output/batches/{number}.txt")), "{ran}");
    }
    let files = fs::read_dir(ran.dir().join("job/output")).unwrap().count();
    assert_eq!(files, 1 + 6 + 1, "{ran}");
    for folder in ["job/parts", "job/work", "job/models", "job/links", "job/spill"] {
        assert!(!ran.has(folder), "{folder} is left\n{ran}");
    }
}

/// Whether the leader was killed at a fail point.
fn has_crashed(ran: &Ran) -> bool {
    assert!([-9, 0].contains(&ran.code) && ran.left_over.is_empty(), "{ran}");
    ran.code == -9
}

/// Kills the leader at the first fail point, at the second, and so on, until a job reaches no more fail
/// points. The leader that resumes the job is killed, too, and the job is then resumed once more. `suffix`:
/// `:cut` also removes bytes that were not synced.
fn kill_at_each_point(job: impl Fn() -> TestJob, suffix: &str) {
    for number in 1.. {
        let ran = job().env(FAIL_POINT, &format!("*:{number}{suffix}")).run(&[]);
        if !has_crashed(&ran) {
            assert_complete(&ran);
            assert!(number > 10, "there are more points than {number}");
            return;
        }
        let again = format!("*:{}{suffix}", 1 + number % 7);
        let ran = ran.into_job().env(FAIL_POINT, &again).run(&[]);
        let ran = if has_crashed(&ran) { ran.into_job().env(FAIL_POINT, "").run(&[]) } else { ran };
        ran.exits_with(0);
        assert_complete(&ran);
    }
}

/// Rules M9, W8 and W12 (docs/parallel-run-step.md). For W12, Sandmill promises more than
/// ParallelRunStep: it writes each row exactly once.
#[test]
fn a_leader_may_end_anywhere() {
    kill_at_each_point(job, "");
}

/// The machine crashes instead of the leader, so that files also lose all bytes that were not synced.
#[test]
fn power_may_fail_anywhere() {
    kill_at_each_point(job, ":cut");
}

/// The leader is killed anywhere in a job whose rows stay in one file for each worker.
#[test]
fn a_leader_may_end_anywhere_before_parts_are_made() {
    kill_at_each_point(job_with_parts, ":cut");
}

/// Kills the leader at each fail point in turn, selected by its name. This also covers points late
/// in a job.
#[test]
fn a_leader_may_end_at_each_point_by_name() {
    let names = names(&root().join("host"));
    assert!(names.len() > 10 && names.contains("file-moved"), "{names:?}");
    let mut reached = BTreeSet::new();
    for name in &names {
        let ran = job().env(FAIL_POINT, name).run(&[]);
        if has_crashed(&ran) {
            reached.insert(name.clone());
            let ran = ran.into_job().env(FAIL_POINT, "").run(&[]);
            ran.exits_with(0);
            assert_complete(&ran);
        } else {
            assert_complete(&ran);
        }
    }
    assert!(reached.contains("journal-made") && reached.len() > 6, "{reached:?}");
    eprintln!("{} of {} points are reached by a first run", reached.len(), names.len());
}

/// The names of all fail points in the sources.
fn names(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            names.extend(self::names(&path));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for call in ["fail_point::pass(\"", "fail_point::pass_with(\""] {
            let found = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(found.map(str::to_owned));
        }
    }
    names
}

/// If the leader is killed during --overwrite, the rest of the earlier run is not mistaken for a complete
/// run.
#[test]
fn overwriting_may_end_anywhere() {
    for point in ["job-claimed", "earlier-run-removed", "journal-made"] {
        let done = job().run(&[]);
        done.exits_with(0);
        let ran = done.into_job().env(FAIL_POINT, point).run(&["--overwrite"]);
        assert!(has_crashed(&ran), "{ran}");
        let ran = ran.into_job().env(FAIL_POINT, "").run(&[]);
        ran.exits_with(0);
        assert_complete(&ran);
    }
}

/// If the leader was killed after the last commit, but before a worker was shut down, a resume runs `init`
/// and `shutdown` in another worker, so that the files that `shutdown` writes exist.
#[test]
fn a_resume_without_mini_batches_still_shuts_a_worker_down() {
    const ONE_MINI_BATCH: [&str; 4] = ["--set", "mini_batch_size=6", "--process-count", "1"];
    let shutdown =
        |worker: &str| format!("job/logs/user/entry_script_log/0/files/{worker}.shutdown");
    // Some groups of journal records have only facts about the plan and no rows, so try several points.
    let ran = [1, 2, 3, 4].iter().cycle().take(40).map(|time| {
        let ran = job().env(FAIL_POINT, &format!("journaled:{time}")).run(&ONE_MINI_BATCH);
        (has_crashed(&ran), ran)
    });
    let ran = ran.filter(|(crashed, ran)| *crashed && !ran.output().is_empty());
    let ran = ran.map(|(_, ran)| ran).find(|ran| !ran.has(&shutdown("process000")));
    let ran = ran.expect("one run is killed when its rows are in the journal");
    let ran = ran.into_job().env(FAIL_POINT, "").run(&ONE_MINI_BATCH);
    ran.exits_with(0).says("resumed: 1 mini-batch done");
    assert!(ran.has(&shutdown("process001")), "{ran}");
    // If a worker had called `shutdown` before the crash, the resume starts no other worker to call it.
    let ran = job().env(FAIL_POINT, "all-synced").run(&ONE_MINI_BATCH);
    assert!(has_crashed(&ran), "{ran}");
    let ran = ran.into_job().env(FAIL_POINT, "").run(&ONE_MINI_BATCH);
    ran.exits_with(0);
    assert!(!ran.has(&shutdown("process001")), "{ran}");
    assert!(ran.has("job/output/batches/0.txt"), "{ran}");
}
