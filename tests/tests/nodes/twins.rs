//! A worker that hangs near the end of a job, on a node that works.

use crate::cluster::{
    Cluster, assert_files, expected_rows, expected_rows_in_order, job, rows_of_parts,
};
use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, Running};
use serde_json::Value;
use std::path::Path;

/// The first worker of node 1.
const HANGS: &str = "process100000";

/// The job's events so far.
fn events(running: &Running) -> Vec<Value> {
    let said = running.stdout_so_far();
    let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.map(|event| event["kind"].clone()).collect()
}

/// Begins a job with these lines on two nodes. Pauses a worker of node 1 as soon as it has begun a mini-batch. Returns
/// the worker's process id.
fn with_a_paused_worker(cluster: &mut Cluster, lines: &str) -> (Running, Pid) {
    cluster.start_agents(2);
    let slow = "arguments: [--nap, '200']\nrun_invocation_timeout: 500";
    let mut running =
        cluster.start(job(2, &format!("{slow}\n{lines}")), "leader", &["--events", "-"]);
    let is_of_worker = |kind: &&Value| kind["worker"] == HANGS;
    running.until("the worker has begun a mini-batch", |running| {
        let events = events(running);
        let mut of_worker = events.iter().filter(is_of_worker);
        of_worker.any(|kind| kind["event"] == "attempt_started")
    });
    let events = events(&running);
    let mut of_worker = events.iter().filter(is_of_worker);
    let started = of_worker.find(|kind| kind["event"] == "worker_started").unwrap();
    let pid = i32::try_from(started["pid"].as_i64().unwrap()).unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    (running, pid)
}

/// The leader's log.
fn leader_log(ran: &Ran) -> String {
    let folder = ran.dir().join("leader/logs/sys");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.display().to_string().contains("master_role"));
    logs.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Fails unless each file was processed once, in its first try.
fn assert_tried_once(ran: &Ran) {
    let table = ran.text("leader/logs/sys/job_report/processed_mini-batches.csv");
    assert_eq!(table.matches(",RUN_DONE,").count(), expected_rows().len(), "{table}");
    assert_eq!(table.lines().count(), 1 + expected_rows().len(), "{table}");
}

/// Another node repeats the mini-batches of a worker that hangs, also those in its queue. The job ends without
/// waiting for the worker.
#[test]
fn a_worker_that_hangs_delays_no_job() {
    let mut cluster = Cluster::new();
    let lines = "ordered: true\noutput_files: append";
    let (running, pid) = with_a_paused_worker(&mut cluster, lines);
    let ran = running.wait();
    ran.exits_with(0);
    let text = ran.text("shared/out/parallel_run_step.txt");
    assert_eq!(text.lines().collect::<Vec<_>>(), expected_rows_in_order());
    assert_files(&ran);
    assert_tried_once(&ran);
    let left = format!("/proc/{}", pid.as_raw_nonzero());
    assert!(!Path::new(&left).exists(), "the worker is still there");
    // Node 1 has an idle worker, too, but its machine may be the reason.
    let log = leader_log(&ran);
    assert!(log.contains("node 0 makes a second attempt (a twin)"), "{log}");
    assert!(!log.contains("node 1 makes a second attempt"), "{log}");
    assert!(log.contains(&format!("{HANGS} is ended, because process00")), "{log}");
    let explained = ran.into_job().command(&["explain", "leader"]);
    let has_twins = explained.stdout.contains("got a second attempt on another node (a twin).");
    assert!(has_twins, "{explained}");
}

/// If the worker continues, both attempts may succeed. Only one of them counts.
#[test]
fn both_attempts_may_succeed() {
    let mut cluster = Cluster::new();
    let (mut running, pid) = with_a_paused_worker(&mut cluster, "output_layout: parts");
    running.until("there is a twin", |running| {
        events(running).iter().any(|kind| kind["event"] == "twin_granted")
    });
    kill_process(pid, Signal::CONT).unwrap();
    let ran = running.wait();
    ran.exits_with(0);
    assert_eq!(rows_of_parts(&ran), expected_rows());
    assert_files(&ran);
    assert_tried_once(&ran);
}
