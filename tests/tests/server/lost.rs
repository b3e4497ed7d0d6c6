//! Servers and processes of jobs that are killed.

use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{JobServer, guest};
use serde_json::json;

fn slow_job(server: &JobServer, token: &str) -> String {
    for number in 0..10 {
        server.file("ada", &format!("{number}.txt"), "1");
    }
    let component = server.upload(token, &guest("surroundings"));
    let lines = "arguments: [--nap, '300']\nprocess_count_per_node: 2";
    server.submit(token, &server.job_file("ada", lines), &component)
}

#[test]
fn a_dead_server_stops_no_job_and_the_next_one_finds_it() {
    let mut server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let id = slow_job(&server, &token);
    server.wait(&token, &id, |job| job["counts"]["succeeded"].as_u64() > Some(0));
    server.kill();
    server.start_again();
    let job = server.wait_for(&token, &id, "completed");
    assert_eq!((&job["starts"], &job["counts"]["succeeded"]), (&json!(1), &json!(10)), "{job:#}");
}

#[test]
fn a_server_that_is_asked_to_end_leaves_jobs_running() {
    let mut server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let id = slow_job(&server, &token);
    server.wait_for(&token, &id, "running");
    assert_eq!(server.end(Signal::TERM), Some(0));
    server.start_again();
    let job = server.wait_for(&token, &id, "completed");
    assert_eq!((&job["starts"], &job["counts"]["succeeded"]), (&json!(1), &json!(10)), "{job:#}");
}

/// A job goes on if its process is killed, and also if the process ends in order because the machine is shut down.
fn a_job_goes_on_after(signal: Signal) {
    let server = JobServer::start("");
    let token = server.tenant("ada", &json!({}));
    let id = slow_job(&server, &token);
    server.wait(&token, &id, |job| job["counts"]["succeeded"].as_u64() > Some(0));
    let state = server.root().join(format!("state/jobs/ada/{id}/job.json"));
    let state: serde_json::Value = serde_json::from_slice(&std::fs::read(state).unwrap()).unwrap();
    let pid = state["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    let job = server.wait_for(&token, &id, "completed");
    assert_eq!((&job["starts"], &job["counts"]["succeeded"]), (&json!(2), &json!(10)), "{job:#}");
    let rows = server.get(&token, &format!("/v1/jobs/{id}/outputs/parallel_run_step.txt")).has(200);
    assert_eq!(rows.text.lines().count(), 10);
}

#[test]
fn a_job_whose_process_is_killed_goes_on() {
    a_job_goes_on_after(Signal::KILL);
}

#[test]
fn a_job_whose_process_is_ended_goes_on() {
    a_job_goes_on_after(Signal::TERM);
}

/// What a user wants while no server is there, or after it was asked to end, is done by the next one.
#[test]
fn a_wish_that_no_keeper_has_seen_is_fulfilled() {
    let mut server = JobServer::start("");
    let token = server.tenant("ada", &json!({"running_jobs": 1}));
    let first = slow_job(&server, &token);
    server.wait_for(&token, &first, "running");
    let second = slow_job(&server, &token);
    server.kill();
    let state = rusqlite::Connection::open(server.root().join("state/server.db")).unwrap();
    state.execute("UPDATE job SET wish = 'cancel' WHERE id = ?", [&second]).unwrap();
    drop(state);
    server.start_again();
    server.wait_for(&token, &second, "cancelled");
    let job = server.wait_for(&token, &first, "completed");
    assert_eq!(job["starts"], 1);
}

/// A second server must not use the state of a running one.
#[test]
fn a_second_server_with_the_same_state_is_refused() {
    let server = JobServer::start("");
    let mut second = std::process::Command::new(sandmill_tests::sandmill());
    second.args([
        "serve",
        "--state",
        "state",
        "--policy",
        "policy.yaml",
        "--listen",
        "127.0.0.1:0",
    ]);
    let output = second.current_dir(server.root()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr)
        .replace(&server.root().display().to_string(), "DIR");
    assert_eq!(
        text.trim(),
        "error: another server uses DIR/state: end it, or give another --state"
    );
}
