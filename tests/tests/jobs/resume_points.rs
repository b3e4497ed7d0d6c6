//! The leader ends between any two steps of committing, beginning and ending a job. The resumed job has the
//! rows and files of an undisturbed run.
//!
//! Builds with debug assertions kill themselves at the points that `SANDMILL_FAIL_POINT` names (see
//! `host/model/src/fail_point.rs`).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Job, Ran, guest, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const POINT: &str = "SANDMILL_FAIL_POINT";

/// A job with rows and files, from six mini-batches.
fn job() -> Job {
    let job = Job::new(&guest("writes_files"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 2\nrun_max_try: 9");
    (0..6).fold(job, |job, number| job.file(&format!("in/{number}.txt"), "x".repeat(number)))
}

/// The same job, with one file of rows per worker.
fn in_parts() -> Job {
    job().yaml("output_layout: parts")
}

/// Fails unless each row and file is there once.
#[track_caller]
fn is_whole(ran: &Ran) {
    let rows: Vec<String> = (0..6).map(|n| format!("{n}.txt: {n}")).collect();
    let is_one = ran.has("job/output/parallel_run_step.txt");
    let found = if is_one { ran.sorted_output() } else { ran.sorted_parts("") };
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

/// Whether the leader ended at the given point.
fn crashes(ran: &Ran) -> bool {
    assert!([-9, 0].contains(&ran.code) && ran.left_over.is_empty(), "{ran}");
    ran.code == -9
}

/// Ends the leader at the first point, at the second, and so on, until a job reaches no more points. Each
/// time, the first resume also ends at some point. `how` is `""` or `:cut`.
fn sweep(job: impl Fn() -> Job, how: &str) {
    for number in 1.. {
        let ran = job().env(POINT, &format!("*:{number}{how}")).run(&[]);
        if !crashes(&ran) {
            is_whole(&ran);
            assert!(number > 10, "there are more points than {number}");
            return;
        }
        let again = format!("*:{}{how}", 1 + number % 7);
        let ran = ran.into_job().env(POINT, &again).run(&[]);
        let ran = if crashes(&ran) { ran.into_job().env(POINT, "").run(&[]) } else { ran };
        ran.exits_with(0);
        is_whole(&ran);
    }
}

/// M9, W8, W12 (different on purpose: exactly once).
#[test]
fn a_leader_may_end_anywhere() {
    sweep(job, "");
}

/// The same when the machine crashes, so that files lose everything that was not synced.
#[test]
fn power_may_fail_anywhere() {
    sweep(job, ":cut");
}

/// The same when each worker's rows stay in the worker's own file.
#[test]
fn a_leader_may_end_anywhere_before_parts_are_made() {
    sweep(in_parts, ":cut");
}

/// The same for each point by its name, so that points late in a job are covered.
#[test]
fn a_leader_may_end_at_each_point_by_name() {
    let names = names(&root().join("host"));
    assert!(names.len() > 10 && names.contains("file-moved"), "{names:?}");
    let mut reached = BTreeSet::new();
    for name in &names {
        let ran = job().env(POINT, name).run(&[]);
        if crashes(&ran) {
            reached.insert(name.clone());
            let ran = ran.into_job().env(POINT, "").run(&[]);
            ran.exits_with(0);
            is_whole(&ran);
        } else {
            is_whole(&ran);
        }
    }
    assert!(reached.contains("journal-made") && reached.len() > 6, "{reached:?}");
    eprintln!("{} of {} points are reached by a first run", reached.len(), names.len());
}

/// The names of all points in the sources.
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

/// With --overwrite, a half-removed earlier run is not mistaken for a complete one.
#[test]
fn overwriting_may_end_anywhere() {
    for point in ["job-claimed", "earlier-run-removed", "journal-made"] {
        let done = job().run(&[]);
        done.exits_with(0);
        let ran = done.into_job().env(POINT, point).run(&["--overwrite"]);
        assert!(crashes(&ran), "{ran}");
        let ran = ran.into_job().env(POINT, "").run(&[]);
        ran.exits_with(0);
        is_whole(&ran);
    }
}

/// The files of `init` and `shutdown` exist even if the leader ended after the last mini-batch was committed
/// and before a worker was shut down.
#[test]
fn a_resume_without_mini_batches_still_shuts_a_worker_down() {
    const ONE: [&str; 4] = ["--set", "mini_batch_size=6", "--process-count", "1"];
    let shutdown =
        |worker: &str| format!("job/logs/user/entry_script_log/0/files/{worker}.shutdown");
    // Some groups of the journal have no rows, but only facts about the plan, so try several points.
    let ran = [1, 2, 3, 4].iter().cycle().take(40).map(|time| {
        let ran = job().env(POINT, &format!("journaled:{time}")).run(&ONE);
        (crashes(&ran), ran)
    });
    let ran = ran.filter(|(crashed, ran)| *crashed && !ran.output().is_empty());
    let ran = ran.map(|(_, ran)| ran).find(|ran| !ran.has(&shutdown("process000")));
    let ran = ran.expect("a run that ends when its rows are journaled");
    let ran = ran.into_job().env(POINT, "").run(&ONE);
    ran.exits_with(0).says("resumed: 1 mini-batch done");
    assert!(ran.has(&shutdown("process001")), "{ran}");
    // If the worker was already shut down before the crash, it is not done again.
    let ran = job().env(POINT, "all-synced").run(&ONE);
    assert!(crashes(&ran), "{ran}");
    let ran = ran.into_job().env(POINT, "").run(&ONE);
    ran.exits_with(0);
    assert!(!ran.has(&shutdown("process001")), "{ran}");
    assert!(ran.has("job/output/batches/0.txt"), "{ran}");
}
