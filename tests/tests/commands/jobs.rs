//! Commands for all jobs of a folder: their list, their states, cancelling and removing them. Also the
//! interfaces for other programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Running, TestJob, sandmill, texts};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A job whose entry script never returns.
fn sleeping_job() -> TestJob {
    texts("hostile_files")
        .yaml("arguments: [--do, sleep]\nrun_invocation_timeout: 120\ntenant: ada")
}

/// Runs a command in a folder in which another command is running.
fn command(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(sandmill()).args(arguments).current_dir(dir).output().unwrap()
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    let output = command(dir, arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Waits until the job runs a mini-batch.
fn until_it_runs(running: &mut Running) {
    running.until("it runs a mini-batch", |running| {
        let status = command(running.dir(), &["status"]);
        String::from_utf8_lossy(&status.stdout).contains("attempt 1")
    });
}

#[test]
fn the_config_file_sets_the_folder_of_jobs() {
    let job = texts("echo_files");
    let root = job.path("elsewhere");
    fs::create_dir_all(job.path("config-home/sandmill")).unwrap();
    let config = job.path("config-home/sandmill/config.yaml");
    fs::write(&config, format!("jobs_root: {}\n", root.display())).unwrap();
    let ran = job.command(&["run", "job.yaml"]);
    ran.exits_with(0);
    assert!(root.join("test/job.json").exists() && !ran.dir().join("jobs").exists(), "{ran}");
    let status = ran.into_job().command(&["status", "test"]);
    status.exits_with(0);
    let jobs = status.into_job().command(&["jobs"]);
    assert!(jobs.stdout.contains("elsewhere/test"), "{jobs}");
    let other = jobs.into_job().env("SANDMILL_JOBS_ROOT", "other").command(&["run", "job.yaml"]);
    other.exits_with(0);
    assert!(other.dir().join("other/test/job.json").exists(), "the variable comes first: {other}");

    // The message about an unknown key contains its line. If the operator has set a policy, the user's
    // configuration file is ignored.
    fs::write(&config, "jobs_rot: /a\n").unwrap();
    let wrong = other.into_job().env("SANDMILL_JOBS_ROOT", "").command(&["status", "test"]);
    wrong.exits_with(2).says("config.yaml:1: jobs_rot: unknown key; did you mean jobs_root?");
    let policy = wrong.dir().join("policy.yaml");
    fs::write(&policy, "machine: {workers: 2}\n").unwrap();
    let policy = policy.to_str().unwrap().to_owned();
    let under = wrong.into_job().command(&["run", "job.yaml", "--policy", &policy]);
    under.exits_with(0);
    assert!(under.dir().join("jobs/test/job.json").exists(), "{under}");
}

#[test]
fn a_job_is_listed_and_cancelled_by_its_name() {
    let mut running = sleeping_job().spawn(&["run", "job.yaml"]);
    until_it_runs(&mut running);
    let dir = running.dir().to_owned();
    let list = json(&dir, &["jobs", "--json", "--tenant", "ada"]);
    assert_eq!((&list["version"], &list["jobs"][0]["state"]), (&1.into(), &"running".into()));
    assert_eq!(list["jobs"][0]["job"], "test");
    let socket = dir.join("jobs/test/control.sock");
    assert_eq!(socket.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let status = command(&dir, &["status", "--exit-code"]);
    assert_eq!(status.status.code(), Some(3));
    // A running job is never removed.
    command(&dir, &["clean", "--older-than", "0s", "--failed"]);
    assert!(dir.join("jobs/test/job.json").exists());

    let cancelled = command(&dir, &["cancel", "test", "--at-once", "--wait"]);
    assert_eq!(cancelled.status.code(), Some(0), "{cancelled:?}");
    let ran = running.wait();
    ran.exits_with(130).says("sandmill cancel");
    assert!(socket.symlink_metadata().is_err(), "the socket is not removed");
    let again = ran.into_job().command(&["cancel"]);
    again.exits_with(2).says("error: job test does not run: it was cancelled at ");
    let status = again.into_job().command(&["status", "--exit-code", "test"]);
    status.exits_with(130);
    let misspelled = status.into_job().command(&["status", "tset"]);
    misspelled.exits_with(2).says("no job in jobs has this name; did you mean test?");

    let kept = misspelled.into_job().command(&["clean", "--older-than", "0s"]);
    kept.exits_with(0);
    assert_eq!(kept.stdout, "0 jobs, 0 bytes freed\n", "the job could be resumed");
    let removed = kept.into_job().command(&["clean", "--older-than", "0s", "--failed"]);
    assert!(removed.exits_with(0).stdout.contains("removed jobs/test (cancelled, "), "{removed}");
    assert!(!removed.has("jobs/test"));
}

/// The machine has a slot for one worker, which the first job holds. The second job waits, and is cancelled
/// while it waits.
#[test]
fn a_waiting_job_is_reported_and_can_be_cancelled() {
    let machine = tempfile::tempdir().unwrap();
    let policy = machine.path().join("policy.yaml");
    let slots = machine.path().join("slots");
    let text = format!("machine: {{ workers: 1, directory: '{}' }}\n", slots.display());
    fs::write(&policy, text).unwrap();
    let policy = policy.to_str().unwrap();
    let mut first = sleeping_job().spawn(&["run", "job.yaml", "--policy", policy]);
    until_it_runs(&mut first);
    let mut second = texts("echo_files").spawn(&["run", "job.yaml", "--policy", policy]);
    second.until("it waits", |second| second.stderr_so_far().contains("waits for its turn"));
    let dir = second.dir().to_owned();
    second.until("status says so", |_| json(&dir, &["status", "--json"])["status"] == "waiting");
    let status = command(&dir, &["status"]);
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(text.starts_with("Job test is waiting for its turn (process "), "{text}");
    let list = json(&dir, &["jobs", "--json", "--state", "waiting", "--policy", policy]);
    let holder = &list["jobs"][0]["waiting"]["held_by"][0];
    assert_eq!((&holder["pid"], &holder["workers"]), (&first.pid().into(), &1.into()));
    assert_eq!(command(&dir, &["cancel"]).status.code(), Some(0));
    second.wait().exits_with(130);
    assert_eq!(command(first.dir(), &["cancel", "--at-once"]).status.code(), Some(0));
    first.wait().exits_with(130);
}

/// A killed leader does not remove its socket. The next run creates a new one, and removes it at its end.
#[test]
fn a_stale_socket_does_no_harm() {
    let mut running = texts("hostile_files")
        .yaml("arguments: [--do, sleep, --on-batch, 1, --on-attempt, 1]\nrun_invocation_timeout: 2")
        .spawn(&["run", "job.yaml"]);
    until_it_runs(&mut running);
    running.kill_leader();
    let killed = running.wait();
    assert!(killed.dir().join("jobs/test/control.sock").symlink_metadata().is_ok(), "{killed}");
    let list = json(killed.dir(), &["jobs", "--json"]);
    assert_eq!(list["jobs"][0]["state"], "interrupted");
    let refused = killed.into_job().command(&["cancel"]);
    refused.exits_with(2).says("error: job test does not run: it was interrupted");
    let ran = refused.into_job().command(&["resume"]);
    ran.exits_with(0);
    assert!(!ran.has("jobs/test/control.sock"));
    assert_eq!(ran.text("jobs/test/output/parallel_run_step.txt").lines().count(), 3);
}

fn executable(job: &TestJob, path: &str) {
    fs::set_permissions(job.path(path), fs::Permissions::from_mode(0o755)).unwrap();
}

/// `--events -` writes the events to standard output. `--on-end` calls a program after everything is written.
#[test]
fn programs_receive_events_and_the_end_of_a_job() {
    let script = "#!/bin/sh\necho \"$SANDMILL_JOB $SANDMILL_STATE\" > ended\n\
                  test -f \"$SANDMILL_DIR/job.json\" && echo noise\n";
    let job = texts("echo_files").file("end.sh", script);
    executable(&job, "end.sh");
    let ran = job.command(&["run", "job.yaml", "--events", "-", "--on-end", "./end.sh"]);
    ran.exits_with(0);
    let events: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kind = |event: Option<&Value>| event.unwrap()["kind"]["event"].clone();
    assert_eq!(kind(events.first()), "job_started");
    assert_eq!(kind(events.last()), "job_finished");
    let raw = ran.text("jobs/test/logs/sys/events.jsonl");
    assert_eq!(ran.stdout, raw, "the same as in the log tree");
    assert_eq!(ran.text("ended"), "test completed\n");
    let ran = ran.into_job().command(&["metrics"]);
    assert!(ran.exits_with(0).stdout.contains("sandmill_jobs{state=\"completed\"} 1\n"), "{ran}");
    assert!(ran.stdout.ends_with("# EOF\n"), "{ran}");

    let ran = ran.into_job().command(&["run", "job.yaml", "--overwrite", "--on-end", "./none.sh"]);
    ran.exits_with(0).says("warning: --on-end ./none.sh: it cannot be started");
}

/// Every report is also available as JSON.
#[test]
fn reports_are_available_as_json() {
    let ran = texts("hostile_files")
        .yaml("arguments: [--do, error, --on-batch, 1]\nrun_max_try: 1")
        .command(&["run", "job.yaml", "--json"]);
    ran.exits_with(42);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&value["version"], &value["result"]["status"]), (&1.into(), &"failed".into()));
    assert_eq!(value["reused"], false);
    assert!(value["result"]["processor_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert!(value["result"]["peak_memory"].as_u64().is_some_and(|bytes| bytes > 1 << 20));
    let explained = json(ran.dir(), &["explain", "--json"]);
    let failure = &explained["failures"][0];
    assert_eq!(failure["failure"]["kind"], "script_error");
    assert_eq!(failure["first"]["mini_batch"], 1);
    assert!(
        explained["to_change"].as_array().is_some_and(|advice| !advice.is_empty()),
        "{explained}"
    );
    let lines = command(ran.dir(), &["logs", "--json"]).stdout;
    let lines: Vec<Value> =
        serde_json::Deserializer::from_slice(&lines).into_iter().collect::<Result<_, _>>().unwrap();
    assert!(lines.iter().any(|line| line["kind"] == "error" && line["worker"] == "process000"));
    let attempts = json(ran.dir(), &["logs", "--json", "--mini-batch", "1"]);
    assert_eq!(attempts["kind"]["report"]["attempt"], 1);
    let state: Value = serde_json::from_str(&ran.text("jobs/test/job.json")).unwrap();
    let started_by = &state["started_by"];
    assert_eq!((&started_by["command"][1], &started_by["policy"]), (&"run".into(), &Value::Null));
}

/// `logs -f` shows new lines, ends when the job ends, and has the job's exit code.
#[test]
fn logs_are_followed_to_the_end() {
    let mut running = texts("surroundings").spawn(&["run", "job.yaml"]);
    running.until("it has begun", |running| running.dir().join("jobs/test/job.json").exists());
    let followed = command(running.dir(), &["logs", "-f"]);
    assert_eq!(followed.status.code(), Some(0), "{followed:?}");
    let ran = running.wait();
    ran.exits_with(0);
    let at_end = ran.into_job().command(&["logs"]);
    // The number of file headings depends on how often the output switches between files.
    let sorted_lines = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("==> ")).map(str::to_owned);
        let mut lines: Vec<String> = lines.collect();
        lines.sort_unstable();
        lines
    };
    let followed = String::from_utf8(followed.stdout).unwrap();
    assert!(followed.contains("run 0 attempt 1\n"), "{followed}");
    assert_eq!(sorted_lines(&followed), sorted_lines(&at_end.stdout));
}
