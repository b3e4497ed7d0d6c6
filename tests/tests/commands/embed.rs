//! `examples/embed`: a separate program that runs jobs through the library.

use insta::assert_snapshot;
use sandmill_tests::{Running, TestJob, binary, texts};

/// Starts `embed` on the job, with these options.
fn start(job: TestJob, options: &[&str]) -> Running {
    let arguments = [&["job.yaml", "job"], options].concat();
    job.spawn_program(&binary("embed"), &arguments)
}

#[test]
fn it_runs_a_job_reads_its_events_and_reuses_the_result() {
    let job =
        texts("hostile_files").yaml("arguments: [--do, error, --on-batch, 1, --on-attempt, 1]");
    let ran = start(job, &[]).wait();
    ran.exits_with(0);
    // The program reports a failure immediately, but a success only after its rows are committed. So the
    // order of the lines varies.
    let printed = ran.redacted_stdout();
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_snapshot!(lines.join("\n"), @"
    completed: 3 rows in [DIR]/job/output
    mini-batch 0, attempt 1 (/inputs/texts/a.txt): succeeded
    mini-batch 1, attempt 1 (/inputs/texts/b.txt): failed, to be retried: this guest fails, as asked
    mini-batch 1, attempt 2 (/inputs/texts/b.txt): succeeded
    mini-batch 2, attempt 1 (/inputs/texts/c.txt): succeeded
    ");
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2", "c.txt: 3"]);
    let again = start(ran.into_job(), &[]).wait();
    again.exits_with(0);
    assert_snapshot!(again.redacted_stdout(), @"completed: 3 rows in [DIR]/job/output");
}

/// The first Ctrl-C lets running mini-batches finish, and a second Ctrl-C kills the running workers.
/// `sandmill resume` continues the job.
#[test]
fn it_ends_a_job_on_ctrl_c() {
    let job =
        texts("hostile_files").yaml("arguments: [--do, sleep, --on-batch, 1, --on-attempt, 1]");
    let mut running = start(job, &[]);
    running.until("the first attempt has ended", |it| it.stdout_so_far().contains("succeeded"));
    running.interrupt();
    running.until("Ctrl-C has arrived", |it| it.stderr_so_far().contains("a second Ctrl-C"));
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130);
    assert_snapshot!(ran.redacted_stdout(), @"
    mini-batch 0, attempt 1 (/inputs/texts/a.txt): succeeded
    cancelled: 1 rows in [DIR]/job/output
    ");
    assert_eq!(ran.sorted_output(), ["a.txt: 1"]);
    let resumed = ran.into_job().resume(&["--set", "run_invocation_timeout=1"]);
    resumed.exits_with(0);
    assert_eq!(resumed.sorted_output(), ["a.txt: 1", "b.txt: 2", "c.txt: 3"]);
}

#[test]
fn it_ends_a_job_after_a_time() {
    // The second mini-batch would sleep forever; without the cancellation, the job would fail.
    let job = texts("hostile_files")
        .yaml("arguments: [--do, sleep, --on-batch, 1]\nrun_invocation_timeout: 2");
    let ran = start(job, &["--cancel-after", "1"]).wait();
    ran.exits_with(130).says("--cancel-after 1");
}

#[test]
fn it_reports_wrong_job_files_and_failed_jobs() {
    let failing = texts("hostile_files").yaml("arguments: [--do, error]\nrun_max_try: 1");
    start(failing, &[]).wait().exits_with(42).says("error_threshold");
    let wrong = start(texts("echo_files").yaml("no_such_key: 1"), &[]).wait();
    wrong.exits_with(1).says("error: job.yaml:6: no_such_key: unknown key");
}
