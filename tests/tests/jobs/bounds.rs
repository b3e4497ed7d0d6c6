//! Limits on what an untrusted job can make the leader do, write and hold in memory. The end of a job reports
//! each limit that was reached.

#![cfg(target_os = "linux")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A job with one file in each mini-batch.
fn job(name: &str, files: u32, settings: &str) -> TestJob {
    let mut job = TestJob::new(&guest(name))
        .yaml("inputs: { texts: input }\nmini_batch_size: 1\nprocess_count_per_node: 2");
    for number in 0..files {
        job = job.file(&format!("input/f{number}.txt"), "x");
    }
    job.yaml(settings)
}

/// The messages on stderr, without the path of the job's folder.
fn messages(ran: &Ran) -> String {
    ran.stderr.replace(&format!("{}/", ran.dir().display()), "").trim_end().to_owned()
}

#[test]
fn a_thousand_million_mini_batches_are_refused_under_a_policy() {
    let count = "rank_mini_batch_count: 1000000000";
    let ran = job("echo_files", 1, count)
        .file("policy.yaml", "gpus: 0\n")
        .run(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    assert!(!ran.has("job"), "{ran}");
    assert!(messages(&ran).ends_with("rank_mini_batch_count: found 1000000000, more mini-batches than limits.mini_batches allows this job (10000000)"), "{ran}");
    let ran = job("echo_files", 1, "limits: { mini_batches: 1000000001 }")
        .file("policy.yaml", "limits: { mini_batches: 5 }\n")
        .run(&["--policy", "policy.yaml"]);
    ran.exits_with(2).says("limits.mini_batches: found 1000000001, more than the operator's policy allows; ask for at most 5");
}

#[test]
fn a_job_with_too_many_mini_batches_fails() {
    let ran = job("echo_files", 6, "").file("policy.yaml", "limits: { mini_batches: 5 }\n");
    let ran = ran.run(&["--policy", "policy.yaml"]);
    ran.exits_with(42).says("the job has more than 5 mini-batches, which limits.mini_batches");
    assert!(ran.log("job_result.txt").contains("mini_batch_limit"), "{ran}");
    // A job may have exactly as many mini-batches as the limit allows.
    let ran = job("echo_files", 5, "").file("policy.yaml", "limits: { mini_batches: 5 }\n");
    ran.run(&["--policy", "policy.yaml"]).exits_with(0);
}

/// An endless job is stopped at the time limit, keeps its results, and can be resumed.
#[test]
fn a_job_ends_at_its_time_limit() {
    let settings = "rank_mini_batch_count: 1000000000\noutput_action: summary_only";
    let ran = job("void", 1, settings)
        .file("policy.yaml", "limits: { job_time: 2, mini_batches: 1000000000 }\n")
        .run(&["--policy", "policy.yaml"]);
    ran.exits_with(42).says("the job has lasted for 2 s, as long as limits.job_time allows");
    assert!(ran.took.as_secs() < 60, "{ran}");
    assert!(ran.log("job_result.txt").contains("job_time"), "{ran}");
    ran.says("sandmill resume job");
}

/// The first failures are reported in full, further ones briefly, and failures beyond the limit are only
/// counted.
#[test]
fn reports_of_failures_are_bounded() {
    let settings = "arguments: [--do, panic]\nerror_threshold: -1\nrun_max_try: 1\n\
                    output_action: summary_only\nlimits: { reports: 1 MB, failures: 20 }";
    let ran = job("hostile_files", 1500, settings).run(&[]);
    ran.exits_with(0);
    ran.says("1,500 failed")
        .says("of the logs left out, because limits.reports (1 MB) was reached");
    let size = |path: &str| fs::metadata(ran.dir().join("job/logs").join(path)).unwrap().len();
    let total: u64 =
        ["failed_items.csv", "sys/events.jsonl", "sys/job_report/processed_mini-batches.csv"]
            .into_iter()
            .map(size)
            .sum();
    assert!(total < 1_100_000, "{total} bytes\n{ran}");
    let items = ran.failed_items();
    assert!(items.trim_end().ends_with("each failed item is counted in the result\","), "{items}");
    let events = ran.log("sys/events.jsonl");
    assert!(events.contains("limits.failures"), "{ran}");
    assert!(events.lines().last().unwrap().contains("job_finished"), "{ran}");
    let status = ran.into_job().command(&["status", "job"]);
    status.exits_with(0);
    assert!(status.stdout.contains("1,500"), "{status}");
}

/// A service that runs jobs for tenants sets the tenant on the command line. A tenant has at most a fixed
/// number of workers, even if the job asks for more.
#[test]
fn the_service_names_the_tenant_and_limits_its_workers() {
    let policy = |job: TestJob| {
        let folder = job.path("turns").display().to_string();
        job.file(
            "policy.yaml",
            format!("machine: {{workers_per_tenant: 1, directory: {folder}}}\n"),
        )
    };
    let ran = policy(job("echo_files", 2, "tenant: other")).run(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    assert_snapshot!(messages(&ran), @r#"error: job.yaml:6: tenant: found "other" in the job file; the policy counts workers by tenant, so only the command line may set the tenant (--set tenant=NAME): leave the key out (policy.yaml:1)"#);
    let arguments = ["--policy", "policy.yaml", "--set", "tenant=ada"];
    let ran = policy(job("echo_files", 2, "")).run(&arguments);
    ran.exits_with(0)
        .says("process_count_per_node: 1 instead of 2, because all jobs of a tenant share 1");
}

#[test]
fn a_policy_requires_the_wall_by_default() {
    let run = |policy: &str| {
        job("echo_files", 1, "os_sandbox: off")
            .file("policy.yaml", policy)
            .run(&["--policy", "policy.yaml"])
    };
    let ran = run("gpus: 0\n");
    ran.exits_with(2);
    assert_snapshot!(messages(&ran), @"error: job.yaml:6: os_sandbox: found off, less than the operator's policy requires; write required, or leave the key out (policy.yaml)");
    run("gpus: 0\nos_sandbox: off\n").exits_with(0);
}

#[test]
fn a_policy_that_others_can_write_is_not_used() {
    let job = job("echo_files", 1, "").file("policy.yaml", "gpus: 0\n");
    let writable_by_all = fs::Permissions::from_mode(0o666);
    fs::set_permissions(job.path("policy.yaml"), writable_by_all).unwrap();
    let ran = job.run(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    assert_snapshot!(messages(&ran), @"error: policy.yaml: is not used, because other users can write to it (mode 666) and so change what jobs may do; run: chmod go-w policy.yaml");
    // With the permissions that the message advises, the policy is used.
    fs::set_permissions(ran.dir().join("policy.yaml"), fs::Permissions::from_mode(0o644)).unwrap();
    ran.into_job().run(&["--policy", "policy.yaml"]).exits_with(0);
}

#[test]
fn a_leader_that_runs_as_root_warns() {
    let is_root = rustix::process::geteuid().is_root();
    let run = |arguments: &[&str]| {
        let ran = job("echo_files", 1, "").file("policy.yaml", "gpus: 0\n").run(arguments);
        ran.exits_with(0);
        ran
    };
    let warning = "runs as root";
    assert_eq!(run(&["--policy", "policy.yaml"]).stderr.contains(warning), is_root);
    // Without a policy, the warning is only in the leader's log.
    let ran = run(&[]);
    assert!(!ran.stderr.contains(warning), "{ran}");
    let logs = ran.dir().join("job/logs/sys");
    let leader_logs =
        files(&logs).into_iter().filter(|path| path.display().to_string().contains("master_role"));
    let text: String = leader_logs.map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(text.contains(warning), is_root, "{text}");
    let doctor = ran.into_job().command(&["doctor"]);
    assert_eq!(doctor.stdout.contains(warning), is_root, "{doctor}");
}

/// The process lists in a job's reports contain only the job's own processes, and a policy can turn them off.
#[test]
fn process_lists_show_only_the_jobs_processes() {
    let settings = "rank_mini_batch_count: 1000000000\noutput_action: summary_only\n\
                    limits: { job_time: 3 }\nresource_monitor_interval: 1";
    for (setting, has_lists) in [("", true), ("process_lists: off\n", false)] {
        let ran = job("void", 1, settings)
            .file("policy.yaml", format!("limits: {{ mini_batches: 1000000000 }}\n{setting}"))
            .run(&["--policy", "policy.yaml"]);
        ran.exits_with(42);
        let folder = ran.dir().join("job/logs/perf/0/os");
        assert_eq!(folder.exists(), has_lists, "{ran}");
        for file in files(&folder) {
            let text = fs::read_to_string(file).unwrap();
            let pids = text.lines().skip(1).map(|line| line.split_whitespace().next().unwrap());
            assert!(pids.clone().count() > 1 && pids.clone().all(|pid| pid != "1"), "{text}");
        }
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
