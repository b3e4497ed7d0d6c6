//! Commands on another machine, for jobs whose `job_store` is in a store: `status`, `logs`, `explain`, `metrics`,
//! `jobs`, `cancel` and `clean`.

use crate::job_stores::run_on;
use insta::assert_snapshot;
use sandmill_tests::{Elsewhere, Server, TestJob, texts};
use std::fs;

/// A job with three mini-batches.
fn job(moto: &Server, entry_script: &str) -> TestJob {
    moto.put("/box", "");
    let job = texts(entry_script).yaml("output: s3://box/results\njob_store: s3://box/jobs");
    moto.opened_for(job)
}

#[test]
fn a_job_is_seen_and_removed_from_another_machine() {
    let moto = Server::moto();
    let ran = run_on(job(&moto, "surroundings"), "first", &[]);
    ran.exits_with(0);
    let dir = ran.dir().to_owned();
    let other = Elsewhere::with_address("s3://box/jobs", &moto);
    let shown = |arguments: &[&str]| {
        let seen = other.run(arguments);
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{arguments:?}: {seen:?}");
        other.redacted(&seen.stdout, &dir)
    };
    let list = shown(&["jobs"]);
    assert!(list.contains("completed  3 done") && list.contains("  s3://box/results"), "{list}");
    assert_snapshot!(shown(&["status", "test"]), @"
    Job test completed in [TIME].
      mini-batches  3
      items         3
      rows          3
      output        s3://box/results/parallel_run_step.txt
    ");
    // The latest job, without its name.
    assert_eq!(shown(&["status"]), shown(&["status", "test"]));
    assert!(shown(&["status", "--json"]).contains("\"log\": \"s3://box/jobs/test\""));
    assert!(shown(&["logs", "test"]).contains("run 0 attempt 1\n"), "{}", shown(&["logs", "test"]));
    assert!(shown(&["explain", "test"]).contains("Job test completed"));
    let rows =
        "sandmill_job_rows{directory=\"s3://box/jobs/test\",name=\"test\",tenant=\"default\"} 3";
    assert!(shown(&["metrics"]).contains(rows), "{}", shown(&["metrics"]));
    let unknown = other.run(&["status", "tset"]);
    assert_snapshot!(unknown.stderr, @"error: the job store s3://box/jobs has no job called tset; did you mean test? The jobs there: test");
    let ended = other.run(&["cancel", "test"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.stderr.starts_with("error: job test does not run: it was completed"),
        "{ended:?}"
    );
    assert_snapshot!(shown(&["clean", "--older-than", "1h"]), @"0 jobs, 0 bytes freed");
    assert_snapshot!(shown(&["clean", "--older-than", "0s", "--dry-run"]), @"
    would remove s3://box/jobs/test (completed, ended [AGE] ago)
    1 job
    ");
    assert_snapshot!(shown(&["clean", "--older-than", "0s"]), @"
    removed s3://box/jobs/test (completed, ended [AGE] ago)
    1 job
    ");
    // Only the record stays that keeps a leader of the removed run from committing anything.
    let left = moto.names("box", "jobs/");
    assert!(left.len() == 1 && left[0].contains("/log/0000"), "{left:?}");
    assert_eq!(other.run(&["jobs"]).stderr, "no such job in s3://box/jobs\n");
    fs::remove_dir_all(dir.join("first")).unwrap();
    run_on(ran.into_job(), "second", &["--overwrite"]).exits_with(0);
    assert!(shown(&["jobs"]).contains("completed"));
}

#[test]
fn a_running_job_is_cancelled_from_another_machine() {
    let moto = Server::moto();
    let running = job(&moto, "hostile_files").yaml("arguments: [--do, sleep]").start(&[]);
    let other = Elsewhere::with_address("s3://box/jobs", &moto);
    other.until(&["status", "test"], |seen| seen.stdout.contains("is running"));
    let kept = other.run(&["clean", "--older-than", "0s", "--failed"]);
    assert_eq!(kept.stdout, "0 jobs, 0 bytes freed\n", "{kept:?}");
    let asked = other.run(&["cancel", "test", "--at-once", "--wait"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    running.wait().exits_with(130);
    let seen = other.run(&["jobs"]);
    assert!(seen.stdout.contains("cancelled"), "{seen:?}");
    let asked = ["clean", "--older-than", "0s", "--failed"];
    assert!(other.run(&asked).stdout.starts_with("removed s3://box/jobs/test (cancelled"));
}
