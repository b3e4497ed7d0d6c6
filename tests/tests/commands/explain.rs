//! `sandmill explain`, `logs` and `status`: what they report from a job directory.

#![cfg(target_os = "linux")]

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, TestJob, guest};
use std::fs;

/// A job of five mini-batches with one file each.
fn job(name: &str, settings: &str) -> TestJob {
    let mut job = TestJob::new(&guest(name)).yaml(
        "inputs: { texts: input }\n\
         mini_batch_size: 1\n\
         process_count_per_node: 1\n\
         run_max_try: 2",
    );
    for number in 0..5 {
        job = job.file(&format!("input/f{number}.txt"), "x".repeat(number));
    }
    job.yaml(settings)
}

/// The output of `explain` after a run, without the table of times, and without stacks and sizes.
fn explained(ran: Ran) -> String {
    let ran = ran.into_job().command(&["explain", "job"]);
    ran.exits_with(0);
    let text = ran.redacted_stdout();
    let mut kept = Vec::new();
    let mut in_table = false;
    for line in text.lines() {
        in_table = match line {
            "Slowest mini-batches" => true,
            "" => false,
            _ => in_table,
        };
        // The toolchain's libraries add indented lines to a panic or a trap. These lines differ
        // between toolchains.
        if !in_table && !line.starts_with("    ") {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// Rules T1, T5 in docs/parallel-run-step.md.
#[test]
fn a_trap() {
    let ran = job("hostile_files", "arguments: [--do, panic, --on-batch, '3']").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1

    First failure
      mini-batch 3, attempt 1, process000: trap
      /inputs/texts/f3.txt
      the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked

    Failures
      2 attempts: trap: the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked

    Failed items
      1 of 4


    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/user/error/0/process000.txt: each failure of that worker in full, with its stack
      - job/logs/user/stderr/0/process000.stderr.txt: what the entry script wrote to stderr
      - job/logs/user/entry_script_log/0/process000.log.txt: what it logged
      - job/logs/user/error.txt: all failures, counted
      - job/logs/failed_items.csv: which items failed
      - job/logs/sys/job_report/processed_mini-batches.csv: one row for each attempt

    What to change
      - The entry script failed by itself. Try it on only the files that fail: sandmill check COMPONENT --run FILE, with the job's --arg, --env and --side-input
      - If only some items fail, let run return an outcome for each item: then the other items of the mini-batch count, and failed_items.csv names those that failed
      - To tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
    ");
}

/// Rule T6.
#[test]
fn a_time_out() {
    let settings = "arguments: [--do, sleep, --on-batch, '3']\nrun_invocation_timeout: 0.5";
    let ran = job("hostile_files", settings).run(&[]);
    ran.exits_with(42);
    let text = explained(ran);
    let text = regex::Regex::new(r"only \d+ %").unwrap().replace(&text, "only [N] %");
    assert_snapshot!(text, @"
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1

    First failure
      mini-batch 3, attempt 1, process000: timeout
      /inputs/texts/f3.txt
      run took longer than run_invocation_timeout ([TIME]); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)

    Failures
      2 attempts: timeout: run took longer than run_invocation_timeout ([TIME]); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)

    Failed items
      1 of 4


    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/user/error/0/process000.txt: each failure of that worker in full, with its stack
      - job/logs/user/error.txt: all failures, counted
      - job/logs/failed_items.csv: which items failed
      - job/logs/sys/job_report/processed_mini-batches.csv: one row for each attempt

    What to change
      - The entry script computed for only [N] % of the time and waited for the rest: check the disk or network that holds its files. If there were more workers than processors, use fewer workers (process_count_per_node)
      - Raise run_invocation_timeout, or choose a smaller mini_batch_size, so that one call has less to do
      - To tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
    ");
}

/// Rule T4.
#[test]
fn out_of_memory() {
    let settings = "arguments: [--do, allocate, --on-batch, '3']\nlimits: { memory: 64 MB }";
    let ran = job("hostile_files", settings).run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1

    First failure
      mini-batch 3, attempt 1, process000: out_of_memory
      /inputs/texts/f3.txt
      the entry script ran out of memory in run: limits.memory allows 64 MB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time

    Failures
      2 attempts: out_of_memory: the entry script ran out of memory in run: limits.memory allows 64 MB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time

    Failed items
      1 of 4


    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/user/error/0/process000.txt: each failure of that worker in full, with its stack
      - job/logs/user/stderr/0/process000.stderr.txt: what the entry script wrote to stderr
      - job/logs/user/error.txt: all failures, counted
      - job/logs/failed_items.csv: which items failed
      - job/logs/sys/job_report/processed_mini-batches.csv: one row for each attempt

    What to change
      - Raise limits.memory, or have the entry script hold less: a smaller mini_batch_size helps if it holds the whole mini-batch
      - To tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
    ");
}

#[test]
fn an_init_that_always_fails() {
    let ran = job("hostile_init", "arguments: [--do, error]").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"
    Job test failed after [TIME]: init failed 3 times in a row, on every worker that was started: this guest fails, as asked

    First failure
      process000 could not start: script_error
      this guest fails, as asked

    Failures
      3 failed starts of a worker

    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/user/error/0/process000.txt: each failure of that worker in full, with its stack
      - job/logs/user/error.txt: all failures, counted

    What to change
      - init fails by itself: look for a side input, an argument or a variable that is missing. sandmill check COMPONENT --run FILE, with the job's --arg, --env and --side-input, calls init on this machine
      - Repair init, or what it reads; then resume: sandmill resume job
    ");
}

#[test]
fn a_threshold_exceeded() {
    // The bad files sort last. Otherwise, other mini-batches would be running when the job fails,
    // and `explain` would report them too.
    let job = job("outcomes", "error_threshold: 1");
    let ran = job.file("input/u_bad.txt", "").file("input/v_bad.txt", "").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"
    Job test failed after [TIME]: 2 items failed, more than error_threshold allows (1); to continue despite failures, set error_threshold to the number to tolerate, or to -1

    First failure
      mini-batch 5: script_error
      /inputs/texts/u_bad.txt
      u_bad.txt is called bad

    Failed items
      2 of 7:
      mini-batch 5: /inputs/texts/u_bad.txt: u_bad.txt is called bad
      mini-batch 6: /inputs/texts/v_bad.txt: v_bad.txt is called bad
      2 mini-batches returned fewer rows than items


    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/failed_items.csv: which items failed
      - job/logs/sys/job_report/processed_mini-batches.csv: one row for each attempt

    What to change
      - Fix the items that failed, or leave them out, and run again with --overwrite; files that could not be read at all only need to be fixed: resume reads them again
      - To tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
    ");
}

/// All failures are from the first run of the job. The second run fails, too.
#[test]
fn a_threshold_exceeded_before() {
    let ran = job("outcomes", "").file("input/bad.txt", "").run(&[]);
    ran.exits_with(42);
    let ran = ran.into_job().run(&[]);
    ran.exits_with(42).says("what failed in earlier runs of this job also counts");
    ran.says("read next     job/logs/failed_items.csv");
    let explanation = explained(ran);
    assert!(
        explanation.contains("  mini-batch 0: /inputs/texts/bad.txt: bad.txt is called bad\n"),
        "{explanation}"
    );
}

/// Rule T3.
#[test]
fn a_worker_killed_from_outside() {
    let settings = "arguments: [--do, sleep, --on-batch, '3', --on-attempt, '1']";
    let mut running = job("hostile_files", settings).start(&[]);
    let events = running.dir().join("job/logs/sys/events.jsonl");
    let mut pid = 0;
    running.until("mini-batch 3 runs", |_| {
        let text = fs::read_to_string(&events).unwrap_or_default();
        let kinds = text.lines().filter_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(event["kind"].clone())
        });
        let mut started = false;
        for kind in kinds {
            if kind["event"] == "worker_started" {
                pid = i32::try_from(kind["pid"].as_i64().unwrap()).unwrap();
            }
            started |= kind["event"] == "attempt_started" && kind["id"] == 3;
        }
        started
    });
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let ran = running.wait();
    ran.exits_with(0);
    assert_snapshot!(explained(ran), @"
    Job test completed after [TIME]

    First failure
      mini-batch 3, attempt 1, process000: worker_died
      /inputs/texts/f3.txt
      the worker process exited with returncode -9 inside run; another process must have sent it SIGKILL: the kernel has killed no process for lack of memory since the job began

    Failures
      1 attempt: worker_died: the worker process exited with returncode -9 inside run; another process must have sent it SIGKILL: the kernel has killed no process for lack of memory since the job began
      process000 exits with returncode -9


    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/user/error/0/process000.txt: each failure of that worker in full, with its stack
      - job/logs/user/error.txt: all failures, counted
      - job/logs/sys/job_report/processed_mini-batches.csv: one row for each attempt

    What to change
      - Find out what kills processes on this machine: a user, a watchdog, or a container that was stopped. The worker's mini-batch is tried again as long as run_max_try allows it; nothing else is lost
    ");
}

#[test]
fn logs_of_a_mini_batch_and_of_a_worker() {
    let ran = job("hostile_files", "arguments: [--do, error, --on-batch, '3']").run(&[]);
    let ran = ran.into_job().command(&["logs", "job", "--mini-batch", "3"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted_stdout(), @"
    mini-batch 3, attempt 1 (process000, [WHEN], [TIME], of that [TIME] in run): script_error: this guest fails, as asked
      /inputs/texts/f3.txt
    mini-batch 3, attempt 2 (process000, [WHEN], [TIME], of that [TIME] in run): script_error: this guest fails, as asked
      /inputs/texts/f3.txt
    ");
    let ran = ran.into_job().command(&["logs", "job", "--worker", "0"]);
    ran.exits_with(0);
    assert!(ran.stdout.contains("==> logs/user/error/0/process000.txt <=="), "{ran}");
    let ran = ran.into_job().command(&["logs", "job", "--worker", "process777"]);
    ran.exits_with(0).says("process777 of job has written nothing");
    assert_eq!(ran.stdout, "");
    let ran = ran.into_job().command(&["logs", "job", "--mini-batch", "5"]);
    ran.exits_with(0).says("no attempt at mini-batch 5 of job");
}

/// The explanation names a mini-batch that is much slower than most, and says whether it computed or waited.
#[test]
fn a_slow_mini_batch() {
    let job = job("hostile_files", "arguments: [--do, pause, --on-batch, '3']");
    let ran = (5..15).fold(job, |job, n| job.file(&format!("input/f{n}.txt"), "x")).run(&[]);
    ran.exits_with(0);
    let text = explained(ran);
    let text = regex::Regex::new(r"took \d+ times").unwrap().replace(&text, "took [N] times");
    assert_snapshot!(text, @"
    Job test completed after [TIME]


    What to read
      - job/logs/job_result.txt: the outcome
      - job/logs/sys/job_report/processed_mini-batches.csv: one row for each attempt

    What to change
      - Mini-batch 3 took [N] times as long as most, and waited for more than half of its time: first check the disk or network that holds its files
    ");
}

/// Rule T7.
#[test]
fn status_while_a_job_runs_and_after() {
    let settings = "arguments: [--do, sleep, --on-batch, '3']\nrun_invocation_timeout: 1.5\n\
                    run_max_try: 1\nerror_threshold: -1";
    let mut job = TestJob::new(&guest("hostile_files"))
        .yaml("inputs: { texts: input }\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .yaml(settings);
    for number in 0..5 {
        job = job.file(&format!("input/f{number}.txt"), "x".repeat(number));
    }
    let mut running = job.start(&[]);
    let dir = running.dir().join("job");
    let sandmill = |arguments: &[&str]| {
        let output = std::process::Command::new(sandmill_tests::sandmill())
            .args(arguments)
            .arg(&dir)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut text = String::new();
    running.until("status shows mini-batch 3", |_| {
        text = sandmill(&["status"]);
        text.contains("mini-batch 3, attempt 1")
    });
    assert!(text.starts_with("Job test is running (process "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&sandmill(&["status", "--json"])).unwrap();
    assert_eq!(json["status"], "running");
    assert_eq!(json["workers"][0]["running"]["id"], 3);
    let ran = running.wait();
    ran.exits_with(0);
    let ran = ran.into_job().command(&["status", "job"]);
    assert!(ran.stdout.starts_with("Job test completed in "), "{ran}");
    let ran = ran.into_job().command(&["status", "job", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["status"], "completed");
    assert_eq!(json["mini_batches"]["succeeded"], 4);
    assert_eq!(json["mini_batches"]["failed"], 1);
    let ran = ran.into_job().command(&["status", "input"]);
    ran.exits_with(2).says("input is not a job directory: it has no job.json");
}

/// The call never ends, so no attempt fails. The explanation names the mini-batch anyway.
#[test]
fn a_job_without_progress() {
    let settings = "arguments: [--do, sleep, --on-batch, '3']\nprogress_update_timeout: 1";
    let ran = job("hostile_files", settings).run(&[]);
    ran.exits_with(42);
    let explanation = explained(ran);
    let expected = "Inside run at the end\n  - mini-batch 3, attempt 1, process000, for [TIME]\n";
    assert!(explanation.contains(expected), "{explanation}");
    assert!(explanation.contains("job/logs/sys/error/0/_main.txt: "), "{explanation}");
}

/// The file that the job's result names under "read next" exists and is not empty, however the job failed.
#[test]
fn the_file_to_read_next_exists() {
    for (guest, settings) in [
        ("hostile_files", "arguments: [--do, trap]"),
        ("hostile_files", "arguments: [--do, return-nothing]\nerror_threshold: -1"),
        ("hostile_files", "arguments: [--do, return-nothing]\nstrict_cardinality: true"),
        ("hostile_files", "arguments: [--do, sleep]\nprogress_update_timeout: 1"),
        ("hostile_init", "arguments: [--do, error]"),
    ] {
        let ran = job(guest, settings).run(&[]);
        ran.exits_with(42);
        let result = ran.log("job_result.txt");
        let path = result.lines().find_map(|line| line.trim().strip_prefix("read next "));
        let path = path.unwrap_or_else(|| panic!("{settings}: {result}")).trim();
        assert!(!ran.text(path).is_empty(), "{settings}: {path}");
    }
}
