//! The commands for job stores: `jobs`, `clean` and `doctor` with `--store`, and `run --standby`.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use crate::job_store::{assert_complete, job, killed_at, run_on, sandmill_in};
use crate::job_store_over::lock_output;
use sandmill_tests::{Ran, TestJob, texts};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

/// The logs of ended jobs are removed. Other jobs keep theirs, unless they are asked for.
#[test]
fn the_logs_of_ended_jobs_can_be_removed() {
    let killed = killed_at(job(), "journaled:2", "first", &[]);
    let clean = |job: TestJob, options: &[&str]| {
        let clean = ["clean", "--store", "shared/jobs", "--older-than", "0s"];
        job.command(&[&clean, options].concat())
    };
    let ran = clean(killed, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "0 jobs, 0 bytes freed\n"), "{ran}");
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(0);
    let ran = clean(ran.into_job(), &["--dry-run"]);
    assert!(ran.stdout.contains("would remove ") && ran.has("shared/jobs/test"), "{ran}");
    let ran = clean(ran.into_job(), &["--json"]);
    assert!(ran.stdout.contains("\"state\": \"completed\""), "{ran}");
    assert_eq!(fs::read_dir(ran.dir().join("shared/jobs")).unwrap().count(), 0);
    // The job directory still has the result. An older one cannot continue without the log.
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(0);
    let ran = run_on(ran.into_job(), "first", &[]);
    ran.exits_with(2).says("has a commit log in the job store, and");
    assert_complete(&ran, true);
}

/// The jobs in a store are listed on each machine.
#[test]
fn the_jobs_of_a_store_are_listed() {
    let list = |job: TestJob, options: &[&str]| {
        job.command(&[&["jobs", "--store", "shared/jobs"], options].concat())
    };
    let ran = list(killed_at(job(), "journaled:3", "first", &[]), &[]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("JOB   STATE        PROGRESS"), "{ran}");
    assert!(
        lines[1].starts_with("test  interrupted  ") && lines[1].ends_with("/shared/out"),
        "{ran}"
    );
    let ran = run_on(ran.into_job(), "second", &[]);
    ran.exits_with(0);
    let ran = list(ran.into_job(), &["--json", "--state", "completed"]);
    let listed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(listed["jobs"][0]["mini_batches"]["succeeded"], 6, "{ran}");
    let ran = list(ran.into_job(), &["--state", "failed"]);
    ran.exits_with(0).says("no such job in shared/jobs");
}

#[test]
fn doctor_tries_a_job_store() {
    let tried = |job: TestJob, store: &str| job.command(&["doctor", "--store", store]);
    let ran = tried(job(), "shared/jobs");
    let line = |ran: &Ran| {
        let line = ran.stdout.lines().find(|line| line.contains("job store")).unwrap();
        line.replace(&format!("{}/", ran.dir().display()), "")
    };
    insta::assert_snapshot!(line(&ran), @"  ok        the job store: files can be created once, synced, renamed, read, listed, removed and locked in shared/jobs; to check that other machines share the folder, run this there, too");
    let ran = tried(ran.into_job(), "missing");
    insta::assert_snapshot!(line(&ran), @"  WRONG     the job store: missing is not a folder: make it, or mount the shared folder");
    assert_eq!(ran.code, 2, "{ran}");
}

/// The output folder of a job is not on this machine, or a process works there. So the job may be running.
#[test]
fn the_logs_of_jobs_that_may_run_are_kept() {
    let job = killed_at(job(), "journaled:2", "first", &[]);
    let clean = |job: TestJob| {
        job.command(&["clean", "--store", "shared/jobs", "--older-than", "0s", "--failed"])
    };
    let lock = lock_output(&job);
    let ran = clean(job);
    ran.exits_with(0);
    assert!(ran.has("shared/jobs/test"), "{ran}");
    drop(lock);
    fs::rename(ran.dir().join("shared/out"), ran.dir().join("away")).unwrap();
    let ran = clean(ran.into_job());
    ran.exits_with(0);
    assert!(ran.has("shared/jobs/test"), "its leader was alive a moment ago: {ran}");
    for run in fs::read_dir(ran.dir().join("shared/jobs/test")).unwrap() {
        let _ = fs::remove_dir_all(run.unwrap().path().join("heartbeats"));
    }
    let ran = clean(ran.into_job());
    ran.exits_with(0).says("is kept: the job may be running");
    fs::rename(ran.dir().join("away"), ran.dir().join("shared/out")).unwrap();
    let ran = clean(ran.into_job());
    assert!(ran.stdout.contains("(interrupted, ended "), "{ran}");
    assert!(!ran.has("shared/jobs/test"), "{ran}");
}

/// A standby process in the folder of another job. Its messages go to a file.
struct Standby {
    process: Child,
    messages: PathBuf,
}

impl Standby {
    fn start(folder: &Path, machine: &str) -> Self {
        let messages = folder.join(format!("{machine}.log"));
        let file = fs::File::create(&messages).unwrap();
        let process = sandmill_in(folder)
            .args(["run", "job.yaml", "--standby", "--job-dir", machine])
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { process, messages }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.messages).unwrap()
    }

    /// Waits until it ends. Returns its exit code.
    fn end(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

/// Waits until a standby says that it waits.
fn until_it_waits(standby: &mut Standby) {
    while !standby.said().contains("; waiting, to continue") {
        assert!(standby.process.try_wait().unwrap().is_none(), "{}", standby.said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two standbys wait. The machine is lost, and one of them continues the job. The other one continues to wait, and
/// reuses the result.
#[test]
fn a_standby_continues_the_job_of_a_lost_machine() {
    let job = killed_at(job(), "journaled:2", "first", &[]);
    let lock = lock_output(&job);
    let mut standbys = ["second", "third"].map(|machine| Standby::start(&job.path(""), machine));
    standbys.iter_mut().for_each(until_it_waits);
    drop(lock);
    let codes = standbys.each_mut().map(Standby::end);
    let said = standbys.each_ref().map(Standby::said).concat();
    assert_eq!(codes, [Some(0); 2], "{said}");
    assert!(said.contains("continuing it here, from its commit log in"), "{said}");
    // The slower one computes nothing.
    assert_eq!(said.matches("6 were done by an earlier run").count(), 1, "{said}");
    let ran = run_on(job, "fourth", &[]);
    ran.exits_with(0);
    assert_complete(&ran, true);
}

#[test]
fn a_standby_can_be_cancelled() {
    let job = killed_at(job(), "journaled:2", "first", &[]);
    let _lock = lock_output(&job);
    let mut standby = Standby::start(&job.path(""), "second");
    until_it_waits(&mut standby);
    let pid = rustix::process::Pid::from_child(&standby.process);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(standby.end(), Some(130), "{}", standby.said());
}

/// The user cancels the job while a standby waits. The standby does not continue it.
#[test]
fn a_standby_does_not_continue_a_cancelled_job() {
    let job = texts("repeats").yaml("output: shared/out\njob_store: shared/jobs");
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let mut running = job.start(&[]);
    running.until("a worker works", |running| {
        fs::read_dir(running.dir().join("job/work")).is_ok_and(|folder| folder.count() > 0)
    });
    let mut standby = Standby::start(running.dir(), "second");
    until_it_waits(&mut standby);
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130);
    assert_eq!(standby.end(), Some(130), "{}", standby.said());
    let said = standby.said();
    assert!(said.contains("to continue it here, run it without --standby"), "{said}");
}

#[test]
fn a_standby_needs_a_job_store() {
    let ran = texts("run_only").run(&["--standby"]);
    insta::assert_snapshot!(ran.exits_with(2).messages(), @"error: --standby: the job file has no job_store, so this machine cannot continue a job of another one: set job_store to a folder that the machines share, or to an address in a store");
}
