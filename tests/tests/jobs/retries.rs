//! How soon a failed mini-batch is retried, how soon a job ends if it does not tolerate a failure, and how
//! often workers are started if `init` fails.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, with the place")]

use sandmill_tests::{Ran, TestJob, guest};
use serde_json::Value;

/// A job with one file in each mini-batch.
fn job(files: usize, workers: usize) -> TestJob {
    let mut job = TestJob::new(&guest("hostile_files"));
    for number in 0..files {
        job = job.file(&format!("input/{number:05}.txt"), "x");
    }
    job.yaml(&format!(
        "inputs: {{ texts: input }}\nprocess_count_per_node: {workers}\nmini_batch_size: 1"
    ))
}

fn events(ran: &Ran) -> Vec<Value> {
    let text = ran.text("job/logs/sys/events.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number of calls of `run` that begin after the first failed attempt.
fn calls_after_the_first_failure(ran: &Ran) -> usize {
    let events = events(ran);
    let kinds: Vec<&str> =
        events.iter().filter_map(|event| event["kind"]["event"].as_str()).collect();
    let first = events.iter().position(|event| {
        event["kind"]["event"] == "attempt_finished"
            && event["kind"]["report"]["outcome"].get("Err").is_some()
    });
    let after = &kinds[first.unwrap()..];
    after.iter().filter(|kind| **kind == "attempt_started").count()
}

/// Rules W3, W9 (docs/parallel-run-step.md): one of 200 items always fails. Calls of `run` take some time, as
/// in real jobs.
#[test]
fn five_calls_after_the_first_failure_end_the_job() {
    for act in ["error", "panic"] {
        let arguments = format!("arguments: [--do, {act}, --on-batch, '30', --nap, '40']");
        let ran = job(200, 2).yaml(&arguments).run(&[]);
        ran.exits_with(42);
        let calls = calls_after_the_first_failure(&ran);
        assert!(calls <= 5, "{calls} calls after the {act}: {ran}");
    }
}

/// Rules W3, W9: a failed mini-batch is retried immediately. So if a job does not tolerate the failure, it
/// ends long before the end of its input.
#[test]
fn a_failure_that_is_not_tolerated_ends_the_job_soon() {
    let ran = job(1000, 2).yaml("arguments: [--do, error, --on-batch, '3']").run(&[]);
    ran.exits_with(42).says("1 item failed, more than error_threshold allows (0)");
    let attempts = ran.log("sys/job_report/processed_mini-batches.csv").lines().count() - 1;
    assert!(attempts < 300, "{attempts} attempts");
    let failed: Vec<u64> = events(&ran)
        .iter()
        .filter(|event| {
            event["kind"]["event"] == "attempt_finished" && event["kind"]["report"]["id"] == 3
        })
        .filter_map(|event| event["kind"]["report"]["attempt"].as_u64())
        .collect();
    assert_eq!(failed, [1, 2, 3]);
}

/// Rule I1: workers are not started again and again if `init` always fails.
#[test]
fn a_failing_init_is_tried_three_times_per_worker() {
    for workers in [1, 2, 4] {
        let job =
            TestJob::new(&guest("hostile_init")).file("input/a.txt", "x").file("input/b.txt", "x");
        let mut job = job.yaml(&format!(
            "inputs: {{ texts: input }}\nprocess_count_per_node: {workers}\nmini_batch_size: 1\n\
             arguments: [--do, error]"
        ));
        for number in 0..20 {
            job = job.file(&format!("input/{number}.txt"), "x");
        }
        let ran = job.run(&[]);
        ran.exits_with(42);
        let events = events(&ran);
        let count = |kind| events.iter().filter(|event| event["kind"]["event"] == kind).count();
        let counts = [count("worker_started"), count("init_failed")];
        assert_eq!(counts, [3 * workers, 3 * workers], "{ran}");
    }
}
