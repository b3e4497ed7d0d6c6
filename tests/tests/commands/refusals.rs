//! Jobs and commands that are refused before anything runs: exit code 2, and no file is left. Also `sandmill
//! check` and `plan`.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{TestJob, guest};
use std::fs;

fn job() -> TestJob {
    TestJob::new(&guest("echo_files"))
        .yaml("inputs: { files: input }\nprocess_count_per_node: 1")
        .file("input/a.txt", "a")
}

/// Gives the job a `partition_format` that its files do not match. Sandmill cannot plan the job, so
/// the job does not begin.
fn misplaced(job: TestJob) -> TestJob {
    let text = fs::read_to_string(job.path("job.yaml")).unwrap();
    let mismatched = text.replace(
        "{ files: input }",
        "{ files: { path: input, partition_format: '{k}/x/{file}' } }\npartition_keys: [k]",
    );
    job.file("job.yaml", mismatched)
}

#[test]
fn unusable_inputs_leave_no_job_directory() {
    let ran = misplaced(job()).run(&[]);
    ran.exits_with(2).says("Job test did not begin: input 'files': the path a.txt does not match");
    assert!(!ran.stderr.contains("read next") && !ran.has("job"), "{ran}");
}

/// A refused job leaves no copies of its reports in the folder `parent`: they would block the job after its
/// inputs are corrected.
#[test]
fn unusable_inputs_leave_no_copies() {
    let job = job().yaml("parent: parent\ncopy_logs_to_parent: true");
    let right = fs::read_to_string(job.path("job.yaml")).unwrap();
    let ran = misplaced(job).run(&[]);
    ran.exits_with(2);
    assert!(!ran.has("parent/logs/test"), "{ran}");
    let ran = ran.into_job().file("job.yaml", right).run(&[]);
    ran.exits_with(0);
    assert!(ran.has("parent/logs/test/job_result.txt"), "{ran}");
}

#[test]
fn a_refused_overwrite_keeps_the_job_directory() {
    let ran = job().run(&[]);
    ran.exits_with(0);
    let ran = misplaced(ran.into_job()).run(&["--overwrite"]);
    ran.exits_with(2);
    assert!(ran.has("job/job.json"), "{ran}");
}

#[test]
fn a_pin_is_checked_before_anything_is_compiled() {
    let ran = job()
        .env("SANDMILL_CACHE_DIR", "cache")
        .run(&["--set", &format!("entry_script_digest=sha256:{}", "0a".repeat(32))]);
    ran.exits_with(2);
    ran.says("but entry_script_digest is 0a0a");
    assert!(!ran.stderr.contains("compiling") && !ran.has("job"), "{ran}");
}

#[test]
fn check_prints_the_digest_that_a_job_file_pins() {
    let ran = job().command(&["check", guest("echo_files").to_str().unwrap()]);
    ran.exits_with(0);
    let line = ran.stdout.lines().find(|line| line.starts_with("sha256:")).unwrap();
    let pin = format!("entry_script_digest={line}");
    ran.into_job().run(&["--set", &pin]).exits_with(0);
}

#[test]
fn a_panic_is_reported_with_its_call_stack() {
    let ran = TestJob::new(&guest("hostile_files"))
        .yaml("inputs: { files: input }\nprocess_count_per_node: 1\nrun_max_try: 1")
        .yaml("arguments: [--do, panic]")
        .file("input/a.txt", "a")
        .run(&[]);
    ran.exits_with(42);
    let stack = ran.log("user/error/0/process000.txt");
    assert!(stack.contains("0: test_guests::harm::harm"), "{stack}");
    assert!(!stack.contains("_ZN") && !stack.contains("panic_fmt"), "{stack}");
}

#[test]
fn check_passes_arguments_variables_and_side_inputs() {
    let script = guest("surroundings").display().to_string();
    let ran = job().file("weights/w.txt", "1").command(&[
        "check",
        &script,
        "--run",
        "input/a.txt",
        "--arg",
        "--model",
        "--arg",
        "${{side_inputs.model}}/w.txt",
        "--side-input",
        "model=weights",
        "--env",
        "A=b",
    ]);
    ran.exits_with(0);
    assert!(ran.stdout.contains("/side_inputs/model/w.txt"), "{ran}");
    assert!(ran.stdout.contains("A=b") && ran.stdout.contains("side_inputs"), "{ran}");
}

#[test]
fn check_stops_an_endless_run() {
    let script = guest("hostile_files").display().to_string();
    let loops = ["--arg", "--do", "--arg", "loop", "--timeout", "1"];
    let ran = job().command(&[&["check", &script, "--run", "input/a.txt"][..], &loops].concat());
    ran.exits_with(42);
    assert!(ran.stdout.contains("stopped: it did not return within 1 s"), "{ran}");
}

#[test]
fn plan_accepts_the_options_of_run() {
    let ran = job().command(&["plan", "job.yaml", "--process-count", "2", "--job-dir", "x"]);
    ran.exits_with(0);
    let ran = misplaced(ran.into_job()).command(&["plan", "job.yaml"]);
    ran.exits_with(2);
    assert_eq!(ran.stdout, "", "no table, so no header");
    let ran = ran.into_job().command(&["check", "nope"]);
    ran.says("error: nope: No such file or directory");
    let ran = ran.into_job().command(&["run", "job.yaml", "--process-count", "0"]);
    ran.exits_with(2);
    ran.says("expected a whole number of workers of at least 1");
}
