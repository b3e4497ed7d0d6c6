//! A leader is killed while it writes the results of its job to a store. The job is not completed before they are all
//! there.

use crate::cluster::{Cluster, expected_rows, sorted};
use crate::published::{stopped_at, until};
use crate::stored::{assert_files, assert_nothing_left, cluster, job, rows};
use sandmill_tests::{Running, Server, sandmill};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A cluster, and a job whose leader has stopped before it writes the results. No agent takes over.
fn stopped_while_it_publishes(moto: &Server) -> (Cluster, Running) {
    let mut cluster = cluster(moto);
    cluster.start_agents(2);
    let job = job(moto, "box", 2, "");
    let running = stopped_at(&cluster, job, "results-publishing", &["--no-takeover"]);
    (cluster, running)
}

fn command(moto: &Server, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(sandmill());
    command.args(arguments).current_dir(folder).envs(Server::variables(moto.port));
    command.env("SANDMILL_CACHE_DIR", sandmill_tests::root().join("target/test-cache"));
    command.output().unwrap()
}

/// Runs a command that must exit with this code. Returns what it printed.
#[track_caller]
fn exits_with(moto: &Server, folder: &Path, code: i32, arguments: &[&str]) -> String {
    let output = command(moto, folder, arguments);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    text
}

/// Types the arguments of a command as they are in an advice.
#[track_caller]
fn shell(moto: &Server, folder: &Path, arguments: &str) {
    let line = arguments.lines().next().unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{} {line}", sandmill().display()));
    command.current_dir(folder).envs(Server::variables(moto.port));
    command.env("SANDMILL_CACHE_DIR", sandmill_tests::root().join("target/test-cache"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

const STORE: [&str; 2] = ["--store", "s3://box/jobs"];

#[test]
fn a_job_is_not_completed_before_its_results_are_at_their_address() {
    let moto = Server::moto();
    let (cluster, mut running) = stopped_while_it_publishes(&moto);
    let folder = running.dir().to_owned();
    let says = |code, arguments: &[&str]| exits_with(&moto, &folder, code, arguments);
    let in_store = |code, words: &[&str]| says(code, &[words, &STORE[..]].concat());
    let clean = ["clean", "--older-than", "0s"];

    // The leader's last heartbeat is less than 30 seconds ago.
    let text = in_store(3, &["status", "test", "--exit-code"]);
    assert!(text.contains("it writes the results to s3://box/results"), "{text}");
    let text = says(3, &["status", "first", "--exit-code"]);
    assert!(text.contains("it writes the results to s3://box/results"), "{text}");
    let text = in_store(2, &["cancel", "test"]);
    assert!(text.contains("can no longer be cancelled"), "{text}");
    assert!(says(2, &["cancel", "first"]).contains("can no longer be cancelled"));

    running.kill_leader();
    until("the job has no process", || {
        let json = in_store(0, &["status", "test", "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["unpublished"], &json["result"]), (&Value::Bool(true), &Value::Null));
        json["status"] == "interrupted"
    });
    let text = in_store(3, &["status", "test", "--exit-code"]);
    assert!(text.contains("its results are not all in s3://box/results"), "{text}");
    let text = says(3, &["status", "first", "--exit-code"]);
    assert!(text.contains("write them there with: sandmill resume first"), "{text}");
    in_store(3, &["logs", "test", "--follow"]);
    says(3, &["logs", "first", "--follow"]);
    assert!(in_store(0, &["explain", "test"]).contains("was interrupted"));
    assert!(says(0, &["explain", "first"]).contains("was interrupted"));
    let text = in_store(0, &["jobs"]);
    assert!(text.contains("interrupted, results not written"), "{text}");
    let text = in_store(0, &["metrics"]);
    assert!(text.contains("sandmill_jobs{state=\"interrupted\"} 1"), "{text}");
    assert!(in_store(0, &clean).contains("0 jobs"));
    assert!(says(0, &[&clean[..], &["--root", "."]].concat()).contains("0 jobs"));

    let options = cluster.options();
    let broker: Vec<&str> = options.iter().map(String::as_str).collect();
    says(0, &[&["run", "job.yaml", "--job-dir", "first"], &broker[..]].concat());
    assert_eq!(sorted(&rows(&moto)), expected_rows());
    assert_files(&moto);
    assert_nothing_left(&moto);
    assert!(in_store(0, &["status", "test", "--exit-code"]).contains("completed"));
    says(0, &["status", "first", "--exit-code"]);
    in_store(0, &["logs", "test", "--follow"]);
    let resume = in_store(2, &[&["resume", "test"], &broker[..]].concat());
    let advice = resume.split_once("options of sandmill run: sandmill ").unwrap().1;
    shell(&moto, &folder, advice);
    assert!(in_store(0, &clean).contains("1 job"));
    // One object of the job stays.
    assert!(in_store(2, &["status", "test"]).contains("it has no jobs"));
}

/// Another machine, which waits until the leader is dead, writes the results.
#[test]
fn a_standby_that_exits_with_success_has_written_the_results() {
    let moto = Server::moto();
    let (cluster, mut running) = stopped_while_it_publishes(&moto);
    running.kill_leader();
    let options = cluster.options();
    let broker: Vec<&str> = options.iter().map(String::as_str).collect();
    let standby = [&["run", "job.yaml", "--job-dir", "second", "--standby"], &broker[..]].concat();
    exits_with(&moto, running.dir(), 0, &standby);
    assert_eq!(sorted(&rows(&moto)), expected_rows());
    assert_files(&moto);
    let status = [&["status", "test", "--exit-code"], &STORE[..]].concat();
    assert!(exits_with(&moto, running.dir(), 0, &status).contains("completed"));
}

/// The results of a job whose log was removed can no longer be published: no log says whether this run is the last one.
#[test]
fn results_whose_log_was_removed_are_not_written() {
    let moto = Server::moto();
    let (cluster, mut running) = stopped_while_it_publishes(&moto);
    running.kill_leader();
    let folder = running.dir().to_owned();
    let clean = [&["clean", "--older-than", "0s", "--failed"], &STORE[..]].concat();
    until("the job has no process", || exits_with(&moto, &folder, 0, &clean).contains("1 job"));
    let options = cluster.options();
    let broker: Vec<&str> = options.iter().map(String::as_str).collect();
    let again = [&["run", "job.yaml", "--job-dir", "first"], &broker[..]].concat();
    let text = exits_with(&moto, &folder, 42, &again);
    assert!(text.contains("the commit log of the job is no longer in its job store"), "{text}");
    exits_with(&moto, &folder, 0, &[&again[..], &["--overwrite"]].concat());
    assert_eq!(sorted(&rows(&moto)), expected_rows());
    assert_files(&moto);
}

/// What a job that was cancelled advises can be typed.
#[test]
fn a_cancelled_job_of_agents_is_resumed_as_advised() {
    let moto = Server::moto();
    let mut cluster = cluster(&moto);
    cluster.start_agents(1);
    let job = job(&moto, "box", 1, "arguments: [--nap, '300']");
    let submitted = cluster.submit(&job, &[]);
    submitted.exits_with(0).says("  output     s3://box/results/parallel_run_step.txt");
    let cancel = [&["cancel", "test", "--wait"], &STORE[..]].concat();
    let said = exits_with(&moto, job.dir(), 0, &cancel);
    let advice = said.split_once("resume later with: sandmill ").unwrap().1;
    assert!(advice.contains("--broker nats://"), "{said}");
    let status = [&["status", "test", "--exit-code"], &STORE[..]].concat();
    exits_with(&moto, job.dir(), 130, &status);
    shell(&moto, job.dir(), advice);
    assert_eq!(sorted(&rows(&moto)), expected_rows());
}
