//! `sandmill explain`, `logs` and `status`: what a job directory tells of its job.

#![cfg(target_os = "linux")]

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Job, Ran, guest};
use std::fs;

/// A job of five mini-batches of one file.
fn job(name: &str, settings: &str) -> Job {
    let mut job = Job::new(&guest(name)).yaml(
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

/// What `explain` says of a run, without the table of times, stacks and sizes.
fn explained(ran: Ran) -> String {
    let ran = ran.into_job().command(&["explain", "job"]);
    ran.exits_with(0);
    let text = ran.redacted_stdout();
    let mut shown = Vec::new();
    let mut in_table = false;
    for line in text.lines() {
        in_table = match line {
            "Slowest mini-batches" => true,
            "" => false,
            _ => in_table,
        };
        // What a toolchain's library adds to a panic or a trap differs.
        if !in_table && !line.starts_with("    ") {
            shown.push(line);
        }
    }
    shown.join("\n")
}

#[test]
fn a_trap() {
    let ran = job("hostile_files", "arguments: [--do, panic, --on-batch, '3']").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"");
}

#[test]
fn a_time_out() {
    let settings = "arguments: [--do, sleep, --on-batch, '3']\nrun_invocation_timeout: 0.5";
    let ran = job("hostile_files", settings).run(&[]);
    ran.exits_with(42);
    let text = explained(ran);
    let text = regex::Regex::new(r"only \d+ %").unwrap().replace(&text, "only [N] %");
    assert_snapshot!(text, @"");
}

#[test]
fn out_of_memory() {
    let settings = "arguments: [--do, allocate, --on-batch, '3']\nlimits: { memory: 64 MB }";
    let ran = job("hostile_files", settings).run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"");
}

#[test]
fn an_init_that_always_fails() {
    let ran = job("hostile_init", "arguments: [--do, error]").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"");
}

#[test]
fn a_threshold_exceeded() {
    let ran = job("outcomes", "error_threshold: 0").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(explained(ran), @"");
}

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
    assert_snapshot!(explained(ran), @"");
}

#[test]
fn logs_of_a_mini_batch_and_of_a_worker() {
    let ran = job("hostile_files", "arguments: [--do, error, --on-batch, '3']").run(&[]);
    let ran = ran.into_job().command(&["logs", "job", "--mini-batch", "3"]);
    ran.exits_with(0);
    assert_snapshot!(ran.redacted_stdout(), @"");
    let ran = ran.into_job().command(&["logs", "job", "--worker", "0"]);
    ran.exits_with(0);
    assert!(ran.stdout.contains("==> logs/user/error/0/process000.txt <=="), "{ran}");
    let ran = ran.into_job().command(&["logs", "job", "--worker", "process777"]);
    ran.exits_with(2).says("process777 of job has said nothing");
    let ran = ran.into_job().command(&["logs", "job", "--mini-batch", "5"]);
    ran.exits_with(2).says("nothing is known of mini-batch 5 of job");
}

#[test]
fn status_while_a_job_runs_and_after() {
    let settings = "arguments: [--do, sleep, --on-batch, '3']\nrun_invocation_timeout: 1.5\n\
                    run_max_try: 1\nerror_threshold: -1";
    let mut job = Job::new(&guest("hostile_files"))
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
    ran.exits_with(2).says("input is no job directory: it has no job.json");
}
