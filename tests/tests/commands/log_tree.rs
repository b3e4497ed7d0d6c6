//! The log tree of a real job: its files, and their content.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::fs;
use std::path::Path;

/// A job of three mini-batches with a file each. Every attempt at the second mini-batch fails.
fn job() -> TestJob {
    TestJob::new(&guest("hostile_files"))
        .file("in/a.txt", "1\n")
        .file("in/b.txt", "1\n2\n")
        .file("in/c.txt", "1\n2\n3\n")
        .yaml(
            "inputs: {texts: in}
mini_batch_size: 1
run_max_try: 2
process_count_per_node: 1
arguments: [--do, panic, --on-batch, 1]",
        )
}

/// Adds the files below the subfolder `inside` of `folder` to `found`, as paths relative to
/// `folder`. Sorts `found`.
fn files(folder: &Path, inside: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder.join(inside)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
        match entry.file_type().unwrap().is_dir() {
            true => files(folder, &path, found),
            false => found.push(path),
        }
    }
    found.sort();
}

/// A path with `[STAMP]` for each time in its names.
fn without_times(path: &str) -> String {
    let is_stamp = |part: &&str| part.len() >= 10 && part.bytes().all(|b| b.is_ascii_digit());
    let mut path = path.to_owned();
    let stamps: Vec<String> = path.split(['/', '.']).filter(is_stamp).map(str::to_owned).collect();
    for stamp in stamps {
        path = path.replace(&stamp, "[STAMP]");
    }
    path
}

/// The files of the log tree, as paths relative to it, sorted.
fn tree(ran: &Ran) -> Vec<String> {
    let mut found = Vec::new();
    files(&ran.dir().join("job/logs"), "", &mut found);
    found
}

/// The content of a file of the log tree, given its path with `[STAMP]` for each time.
fn text_of(ran: &Ran, name: &str) -> String {
    let found = tree(ran).into_iter().find(|path| without_times(path) == name);
    ran.log(&found.unwrap_or_else(|| panic!("no {name}\n{ran}")))
}

/// Rules F1-F11, F13, F16 (docs/parallel-run-step.md): every file exists.
#[test]
fn a_failed_job_has_the_whole_tree() {
    let ran = job().run(&[]);
    ran.exits_with(42);
    let tree: Vec<String> = tree(&ran).iter().map(|path| without_times(path)).collect();
    for path in [
        "failed_items.csv",
        "job_error.txt",
        "job_progress_overview.[STAMP].txt",
        "job_progress_overview.txt",
        "job_result.txt",
        "readme.txt",
        "sys/events.jsonl",
        "sys/job_report/node_summary.csv",
        "sys/job_report/process_summary.csv",
        "sys/job_report/processed_mini-batches.csv",
        "sys/master_role.[STAMP].txt",
        "sys/metrics/[STAMP]/progress.csv",
        "sys/metrics/metrics.jsonl",
        "sys/node/0/_main.txt",
        "sys/node/0/process000.stderr.txt",
        "sys/node/0/process000.txt",
        "user/error.txt",
        "user/error/0/process000.txt",
    ] {
        assert!(tree.iter().any(|found| found == path), "{path} is not in {tree:#?}\n{ran}");
    }
}

/// Rules W14, F1, F2, F3, F5, F7, F8, F9, K3, T1: the files agree with each other.
#[test]
fn the_files_of_a_failed_job_agree() {
    let ran = job().run(&["--set", "error_threshold=0"]);
    ran.exits_with(42);
    assert_snapshot!(ran.log("job_error.txt").lines().take(1).collect::<String>(), @"2 failures so far, the most frequent first:");
    assert!(ran.log("job_result.txt").contains("  next command  sandmill explain job\n"), "{ran}");
    let role = text_of(&ran, "sys/master_role.[STAMP].txt");
    for words in ["|FIRST_TASK_SCHEDULED after ", "|ALL_TASKS_SCHEDULED: 3 ", "|the job failed: "] {
        assert!(role.contains(words), "{words}\n{role}");
    }
    let overview = ran.log("job_progress_overview.txt");
    assert!(overview.contains("\n  scheduled     3 mini-batches\n"), "{overview}");
    let progress = text_of(&ran, "sys/metrics/[STAMP]/progress.csv");
    let last = progress.lines().last().unwrap_or_default();
    assert_eq!(
        last.split(',').skip(1).take(4).collect::<Vec<_>>(),
        ["3", "3", "1", "1"],
        "{progress}"
    );
    let metrics = ran.log("sys/metrics/metrics.jsonl");
    // The metric counts mini-batches, not attempts (section 1.10 of docs/parallel-run-step.md).
    assert!(metrics.contains(r#""name":"total_mini_batches","value":3.0"#), "{metrics}");
    assert!(metrics.contains(r#""name":"retries","value":1.0"#), "{metrics}");
    for file in ["process_summary.csv", "node_summary.csv"] {
        let summary = ran.log(&format!("sys/job_report/{file}"));
        assert!(summary.contains(",3,1,2,1,3,1,2,"), "{summary}");
    }
    let worker = ran.log("sys/node/0/process000.txt");
    assert_eq!(worker.matches("|finished mini-batch ").count(), 3, "{worker}");
    assert_eq!(ran.log("failed_items.csv").lines().count(), 1 + 1, "{ran}");
}

/// Rules F3, F13, F16: without failures, there are no files about failures.
#[test]
fn a_good_job_has_no_error_files() {
    let ran = job().run(&["--set", "arguments=[--do, panic, --on-batch, 9]"]);
    ran.exits_with(0);
    let tree = tree(&ran);
    let is_about_failures = |path: &&String| path.contains("error/") || path.contains("failed");
    assert!(
        !tree.iter().any(|path| is_about_failures(&path) || path == "job_error.txt"),
        "{tree:#?}"
    );
}
