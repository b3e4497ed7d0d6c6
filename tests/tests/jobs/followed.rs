//! Commands on another machine, for jobs in a job store: `status`, `logs`, `explain`, `metrics`, `jobs` and `cancel`.
//! The other machine has the store, and not the job directory.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use crate::job_store::{assert_complete, job, killed_at, run_on, sandmill_in};
use crate::job_store_over::lock_output;
use insta::assert_snapshot;
use sandmill_tests::{Elsewhere, Ran, Running, TestJob, guest, texts};
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};

/// Adds an output and a job store to the job, in a folder that machines share.
fn in_store(job: TestJob) -> TestJob {
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    job.yaml("output: shared/out\njob_store: shared/jobs")
}

/// A job that prints, with this pause in each of its three mini-batches.
fn printing_job(nap: &str) -> TestJob {
    in_store(texts("surroundings")).yaml(&format!("arguments: [--nap, '{nap}']"))
}

fn elsewhere(running: &Running) -> Elsewhere {
    Elsewhere::new(&running.dir().join("shared/jobs"))
}

/// The state of a running job without the lines that depend on the machine's speed.
fn steady(text: &str) -> String {
    let names = ["Job", "  winding down", "  last word", "  cancel"];
    let is_steady = |line: &&str| names.iter().any(|name| line.starts_with(name));
    text.lines().filter(is_steady).collect::<Vec<_>>().join("\n")
}

/// Waits until the job runs a mini-batch, as another machine sees it.
fn until_it_runs(other: &Elsewhere) -> String {
    other.until(&["status", "test"], |seen| seen.stdout.contains("attempt 1")).stdout
}

#[test]
fn a_job_is_followed_from_another_machine() {
    let running = printing_job("2500").start(&[]);
    let other = elsewhere(&running);
    let dir = running.dir().to_owned();
    let status = until_it_runs(&other);
    assert_snapshot!(steady(&other.redacted(&status, &dir)), @"
    Job test is running (process [PID] on [HOST]).
      last word     [AGE] ago
    ");
    let json = other.run(&["status", "test", "--json"]).stdout;
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["status"], &value["job_dir"]), (&"running".into(), &Value::Null), "{json}");
    assert_eq!((&value["pid"], &value["cancel_requested"]), (&running.pid().into(), &Value::Null));
    let list = other.run(&["jobs", "--state", "running", "--json"]).stdout;
    let value: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(value["jobs"][0]["pid"], running.pid(), "{list}");

    // The command ends with the job, and has the same exit code.
    let followed = other.run(&["logs", "test", "--follow"]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    let ran = running.wait();
    ran.exits_with(0);
    let local = ran.into_job().command(&["logs", "job"]);
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("==> ")).map(str::to_owned);
        let mut lines: Vec<String> = lines.collect();
        lines.sort_unstable();
        lines
    };
    assert!(followed.stdout.contains("run 0 attempt 1\n"), "{followed:?}");
    assert_eq!(lines(&followed.stdout), lines(&local.stdout));
    // In the same order, with the same headings.
    assert_eq!(other.run(&["logs", "test"]).stdout, local.stdout);
    let mini_batch = ["logs", "test", "--mini-batch", "1"];
    let ran = local.into_job().command(&["logs", "job", "--mini-batch", "1"]);
    assert_eq!(other.run(&mini_batch).stdout, ran.stdout);

    let status = other.run(&["status", "test", "--exit-code"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_snapshot!(other.redacted(&status.stdout, &dir), @"
    Job test completed in [TIME].
      mini-batches  3
      items         3
      rows          3
      output        [DIR]/shared/out/parallel_run_step.txt
    ");
    let metrics = other.run(&["metrics"]).stdout;
    assert!(metrics.contains("sandmill_jobs{state=\"completed\"} 1\n"), "{metrics}");
    let directory = dir.canonicalize().unwrap().join("shared/jobs/test");
    let rows = format!(
        "sandmill_job_rows{{directory={directory:?},name=\"test\",tenant=\"default\"}} 3\n"
    );
    assert!(metrics.contains(&rows), "{metrics}");
    assert_eq!(other.run(&["metrics", "test"]).stdout, metrics);
    // The only job, without its name.
    assert_eq!(other.run(&["status"]).stdout, status.stdout);
    let seen = other.run(&["cancel", "test"]);
    assert_eq!(seen.code, Some(2), "{seen:?}");
    assert!(seen.stderr.starts_with("error: job test does not run: it was completed at 20"));
}

/// The advice names files that the other machine has, and a command that works there.
#[test]
fn a_failed_job_is_explained_on_another_machine() {
    let job =
        texts("hostile_files").yaml("arguments: [--do, error, --on-batch, 1]\nrun_max_try: 1");
    let ran = in_store(job).run(&["--set", "run_invocation_timeout=50"]);
    ran.exits_with(42);
    let other = Elsewhere::new(&ran.dir().join("shared/jobs"));
    let explained = other.run(&["explain", "test"]);
    let text = other.redacted(&explained.stdout, ran.dir());
    let beginning = text.split("\n\nFailed items").next().unwrap();
    assert_snapshot!(beginning, @"
    Job test failed after [TIME]: 1 item failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1

    First failure
      mini-batch 1, attempt 1, process000: script_error
      /inputs/texts/b.txt
      this guest fails, as asked

    Failures
      1 attempt: script_error: this guest fails, as asked
        mini-batch 1
    ");
    let to_read = explained.stdout.lines().filter_map(|line| line.strip_prefix("  - "));
    let to_read: Vec<_> = to_read.filter_map(|line| line.split_once(": ")).collect();
    let paths = to_read.iter().filter(|(path, _)| path.contains("/logs/"));
    let shown: Vec<&str> = paths
        .map(|(path, _)| {
            assert!(other.dir().join(path).metadata().is_ok_and(|found| found.len() > 0), "{path}");
            path.split_once("/logs/").unwrap().1
        })
        .collect();
    let expected = ["job_result.txt", "user/error/0/process000.txt", "user/error.txt"];
    assert_eq!(shown, [&expected[..], &["failed_items.csv"]].concat(), "{explained:?}");
    let status = other.run(&["status", "test", "--exit-code"]);
    assert_eq!(status.code, Some(42), "{status:?}");
    let advice = status.stdout.lines().find_map(|line| line.strip_prefix("  next command  "));
    let words: Vec<_> = advice.unwrap().split(' ').skip(1).collect();
    let advised = other.command(&words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&advised.stdout), explained.stdout);
    let advice = status.stdout.lines().find(|line| line.contains("what to do")).unwrap();
    assert_snapshot!(other.redacted(advice, ran.dir()), @"  what to do    to tolerate more and resume: sandmill run [DIR]/job.yaml --set 'run_invocation_timeout=50' --set error_threshold=N; -1 tolerates all");
}

/// A request stays in the store, and the end of the job consumes it.
#[test]
fn a_job_is_cancelled_from_another_machine() {
    let running = printing_job("2500").start(&[]);
    let other = elsewhere(&running);
    let dir = running.dir().to_owned();
    until_it_runs(&other);
    let asked = other.run(&["cancel", "test", "--wait"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_snapshot!(other.redacted(&asked.stderr, &dir), @"Job test (process [PID] on [HOST]) finishes its running mini-batches, and begins no new ones, as soon as it reads the request in the job store. Committed results are kept; resume later with: sandmill run [DIR]/job.yaml");
    let ran = running.wait();
    ran.exits_with(130);
    let said = other.redacted(&ran.stderr, &dir);
    assert!(said.contains("Job test was cancelled after"), "{said}");
    assert!(said.contains(": sandmill cancel on [HOST]\n"), "{said}");
    let again = other.run(&["cancel", "test"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.starts_with("error: job test does not run: it was cancelled at 20"));
    assert_eq!(other.run(&["status", "test", "--exit-code"]).code, Some(130));
    // The user runs it again on purpose.
    let ran = ran.into_job().run(&[]);
    ran.exits_with(0);
    assert!(ran.stderr.contains("done by an earlier run"), "{ran}");
}

/// The first request lets the running mini-batch finish, and the second one does not.
#[test]
fn a_second_request_may_be_more_urgent() {
    let job = texts("hostile_files").yaml("arguments: [--do, sleep]\nrun_invocation_timeout: 120");
    let running = in_store(job).start(&[]);
    let other = elsewhere(&running);
    let dir = running.dir().to_owned();
    until_it_runs(&other);
    assert_eq!(other.run(&["cancel", "test"]).code, Some(0));
    let winding = other.until(&["status", "test"], |seen| seen.stdout.contains("winding down"));
    let winding = other.redacted(&steady(&winding.stdout), &dir);
    assert!(winding.contains("\n  cancel        requested [AGE] ago on [HOST]"), "{winding}");
    let repeated = other.run(&["cancel", "test"]);
    assert_eq!(repeated.code, Some(0), "{repeated:?}");
    assert_snapshot!(other.redacted(&repeated.stderr, &dir), @"Job test was already asked to end, [AGE] ago on [HOST].");
    assert_eq!(other.run(&["cancel", "test", "--at-once", "--wait"]).code, Some(0));
    let ran = running.wait();
    ran.exits_with(130);
    assert!(ran.took.as_secs() < 60, "{ran}");
}

/// The job's leader is dead. The next one ends the job as cancelled, and the ones after that continue it.
#[test]
fn a_request_waits_for_the_next_leader() {
    let job = killed_at(job(), "journaled:2", "first", &[]);
    let other = Elsewhere::new(&job.path("shared/jobs"));
    let dir = job.dir().to_owned();
    let status = other.run(&["status", "test"]).stdout;
    assert_snapshot!(first_line(&other.redacted(&status, &dir)), @"Job test was interrupted: its process [PID] on [HOST] is gone. Committed results are kept; resume with: sandmill run [DIR]/job.yaml");
    let asked = other.run(&["cancel", "test"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_snapshot!(other.redacted(&asked.stderr, &dir), @"Job test has no process now (last word [AGE] ago). The request stays in the job store: nodes that still run workers of the job end them, and the next process that leads the job ends it as cancelled. Committed results are kept.");
    let asked = other.run(&["cancel", "test"]);
    assert_snapshot!(other.redacted(&asked.stderr, &dir), @"Job test was already asked to end, [AGE] ago on [HOST]. It has no process now, and the next one that leads it ends it as cancelled.");
    let list = other.run(&["jobs"]).stdout;
    assert!(list.contains("\ntest  interrupted, cancel requested  "), "{list}");
    // On the machine of the dead leader, the message says what to do.
    let ran = job.command(&["cancel", "first"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: job test does not run: it was interrupted; to have the next process that leads it end it as cancelled: sandmill cancel test --store [DIR]/shared/jobs");
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(130).says(": sandmill cancel on ");
    // The next one continues the job, and is lost, too. The request stays consumed.
    let job = killed_at(ran.into_job(), "journaled:1", "third", &[]);
    let list = other.run(&["jobs"]).stdout;
    assert!(list.contains("\ntest  interrupted  "), "{list}");
    let ran = run_on(job, "fourth", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
    let list = other.run(&["jobs"]).stdout;
    assert!(list.contains("\ntest  completed  "), "{list}");
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Also `resume`, in the job directory of the dead leader.
#[test]
fn a_resumed_job_reads_the_request_first() {
    let job = job().env("SANDMILL_FAIL_POINT", "journaled:2");
    let killed = job.run(&[]);
    assert_eq!(killed.code, -9, "{killed}");
    let other = Elsewhere::new(&killed.dir().join("shared/jobs"));
    assert_eq!(other.run(&["cancel", "test", "--at-once"]).code, Some(0));
    let job = killed.into_job().env("SANDMILL_FAIL_POINT", "");
    let ran = job.resume(&[]);
    ran.exits_with(130).says(": sandmill cancel on ");
    let ran = ran.into_job().resume(&[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

/// A standby takes the job over, and ends it as cancelled.
#[test]
fn a_standby_reads_the_request_first() {
    let job = killed_at(job(), "journaled:2", "first", &[]);
    let other = Elsewhere::new(&job.path("shared/jobs"));
    let lock = lock_output(&job);
    let standby: Child = sandmill_in(job.dir())
        .args(["run", "job.yaml", "--standby", "--job-dir", "second"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = other.run(&["cancel", "test"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    drop(lock);
    let ended = standby.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains(": sandmill cancel on "), "{said}");
}

/// Another machine led the job first. Its logs are still there.
#[test]
fn the_logs_of_all_leaders_are_shown() {
    let job = printing_job("2500").env("SANDMILL_FAIL_POINT", "journaled:2");
    let killed = run_on(job, "first", &[]);
    assert_eq!(killed.code, -9, "{killed}");
    let ran = run_on(killed.into_job().env("SANDMILL_FAIL_POINT", ""), "second", &[]);
    ran.exits_with(0);
    let other = Elsewhere::new(&ran.dir().join("shared/jobs"));
    let printed = other.run(&["logs", "test"]).stdout;
    assert!(
        ["run 0 attempt 1\n", "run 2 attempt 1\n"].iter().all(|it| printed.contains(it)),
        "{printed}"
    );
    let value: Value =
        serde_json::from_str(&other.run(&["status", "test", "--json"]).stdout).unwrap();
    assert_eq!((&value["status"], &value["rows"]), (&"completed".into(), &3.into()), "{value}");
}

#[test]
fn what_cannot_be_found_is_named() {
    let ran = in_store(texts("run_only")).run(&[]);
    ran.exits_with(0);
    let dir = ran.dir().to_owned();
    let seen = |other: &Elsewhere, arguments: &[&str]| {
        let seen = other.run(arguments);
        assert_eq!(seen.code, Some(2), "{seen:?}");
        other.redacted(&seen.stderr, &dir)
    };
    let missing = Elsewhere::new(&dir.join("missing"));
    assert_snapshot!(seen(&missing, &["cancel", "test"]), @"error: there is no job store [DIR]/missing: name the folder of the job's job_store, or mount the shared folder on this machine");
    let other = Elsewhere::new(&dir.join("shared/jobs"));
    for command in ["status", "logs", "explain", "cancel", "metrics"] {
        assert_eq!(
            seen(&other, &[command, "tset"]),
            "error: the job store [DIR]/shared/jobs has no job called tset; did you mean test? The jobs there: test"
        );
    }
    for path in ["../jobs/test", "/etc", "..", "test/runs"] {
        assert!(seen(&other, &["status", path]).contains("has no job called"), "{path}");
    }
    let empty = Elsewhere::new(&dir.join("in"));
    assert_snapshot!(seen(&empty, &["status", "test"]), @"error: the job store [DIR]/in has no job called test: it has no jobs");
    assert_snapshot!(seen(&empty, &["status"]), @"error: the job store [DIR]/in has no jobs");
    // The log of the job was removed.
    let removed = other.run(&["clean", "--older-than", "0s"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(seen(&other, &["status", "test"]).ends_with("has no job called test: it has no jobs"));
}

/// The environment names a store. Job directories come first.
#[test]
fn the_environment_may_name_the_store() {
    let ran = in_store(texts("run_only")).run(&[]);
    ran.exits_with(0);
    let store = ran.dir().join("shared/jobs").display().to_string();
    let status = |job: TestJob, words: &[&str]| job.command(&[&["status"], words].concat());
    let ran = ran.into_job().env("SANDMILL_JOB_STORE", &store);
    let ran = status(ran, &["test", "--json"]);
    let value: Value = serde_json::from_str(&ran.exits_with(0).stdout).unwrap();
    assert_eq!((&value["job_dir"], &value["status"]), (&Value::Null, &"completed".into()), "{ran}");
    let ran = status(ran.into_job(), &["job", "--json"]);
    let value: Value = serde_json::from_str(&ran.exits_with(0).stdout).unwrap();
    assert!(value["job_dir"].as_str().unwrap().ends_with("/job"), "{ran}");
    let ran = status(ran.into_job(), &["other"]);
    ran.exits_with(2).says("has no job called other");
    let ran = status(ran.into_job(), &["shared/other"]);
    ran.exits_with(2).says("shared/other is not a job directory");
}

/// Copied logs are kept for the next command, and `cache` shows them.
#[test]
fn copied_logs_are_cached() {
    let ran: Ran = in_store(TestJob::new(&guest("run_only")))
        .yaml("inputs: {texts: in}")
        .file("in/a.txt", "")
        .run(&[]);
    ran.exits_with(0);
    let other = Elsewhere::new(&ran.dir().join("shared/jobs"));
    let first = other.run(&["status", "test"]).stdout;
    let cached = |arguments: &[&str]| {
        let output = other.command(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = cached(&["cache"]);
    let line = shown.lines().find(|line| line.starts_with("copied logs")).unwrap();
    assert!(
        !line.contains(" 0 files") && line.ends_with("/.cache/sandmill/stored-jobs"),
        "{shown}"
    );
    assert!(cached(&["cache", "clear", "logs"]).starts_with("removed copied logs: "));
    assert_eq!(other.run(&["status", "test"]).stdout, first);
}

#[test]
fn the_help_says_where_a_job_may_be() {
    let ran = TestJob::empty().command(&["cancel", "--help"]);
    let help = ran.exits_with(0).stdout.split("\nLogging:").next().unwrap().to_owned();
    assert_snapshot!(help, @"
    Asks a running or waiting job to end. Committed results are kept.

    Exits with 2 if the job is not running. With --store, a request also holds if the job was
    interrupted: the next process that leads the job ends it as cancelled.

    Usage: sandmill cancel [OPTIONS] [JOB]

    Arguments:
      [JOB]
              The job's directory, or the job's name, for jobs/NAME or for NAME in the folder of
              $SANDMILL_JOBS_ROOT or of the user's config file [default: the newest job there]

    Options:
          --store <STORE>
              Finds the job by its name in this job store (job_store of the job file), on any machine
              that has the store. The job may run on other machines [default: $SANDMILL_JOB_STORE, if no
              job directory is found]

          --datastores <FILE>
              The file of datastores: the stores that inputs may name, with their credentials. It must
              be readable only by its owner [default: $SANDMILL_DATASTORES]

          --at-once
              Ends running mini-batches, too, instead of letting them finish within ten seconds

          --wait
              Waits until the job has ended

      -h, --help
              Print help (see a summary with '-h')

    Server:
          --server <URL>
              The server of `sandmill serve` that has the job, as https://HOST:PORT or by its name in
              the user's config file, for submit, jobs, status, logs, explain, cancel, pause and resume
              [default: $SANDMILL_SERVER, else this machine]
    ");
    for command in ["status", "logs", "explain"] {
        let ran = TestJob::empty().command(&[command, "--help"]);
        assert!(ran.stdout.contains("--store <STORE>"), "{ran}");
    }
}
