//! The assignment of GPUs to workers, and what a guest learns about its GPU. These tests do not need a GPU.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, Running, TestJob, guest};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Whether this machine has a GPU driver. With a driver, Sandmill ignores the numbers of GPUs that the tests
/// set, so the tests are skipped.
fn has_driver() -> bool {
    let found =
        ["/proc/driver/nvidia", "/dev/nvidiactl"].iter().any(|path| Path::new(path).exists());
    if found {
        println!(
            "skipped: this machine has a GPU driver, so Sandmill ignores the tests' numbers of GPUs"
        );
    }
    found
}

/// The folder in which the jobs of one test lease GPUs. Each test has its own folder, because tests run in
/// parallel.
struct MachineWithGpus(tempfile::TempDir);

impl MachineWithGpus {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn job(&self, script: &str) -> TestJob {
        let folder = self.0.path().join("machine");
        TestJob::new(&guest(script)).env("SANDMILL_MACHINE_DIRECTORY", folder.to_str().unwrap())
    }

    /// Starts a job whose guest never returns. Its only worker has a GPU.
    fn start_sleeping_job(&self) -> Running {
        let lines = "inputs: {files: in}\nmini_batch_size: 1\nprocess_count_per_node: 1\ngpus: 1\n\
                     run_invocation_timeout: 120\narguments: [--do, sleep]";
        let mut running = self.job("hostile_files").yaml(lines).file("in/a.txt", "x").start(&[]);
        running.until("a worker with the GPU", |running| {
            node_log(running.dir()).contains("process000 starts, pid")
        });
        assert!(node_log(running.dir()).contains(", GPU 0"), "{}", node_log(running.dir()));
        running
    }
}

fn node_log(dir: &Path) -> String {
    fs::read_to_string(dir.join("job/logs/sys/node/0/_main.txt")).unwrap_or_default()
}

/// Runs a job. Returns the guest's reports about its GPU and the variables about GPUs, sorted and
/// without duplicates.
fn reports_with(settings: &str) -> Vec<String> {
    gpu_reports(&run(&MachineWithGpus::new(), settings))
}

fn run(machine: &MachineWithGpus, settings: &str) -> Ran {
    let job = machine
        .job("surroundings")
        .yaml("source_directory: code\ninputs: {texts: in}\nmini_batch_size: 1")
        .yaml(settings)
        .file("code/one.txt", "");
    let ran = (0..8).fold(job, |job, n| job.file(&format!("in/{n}.txt"), "")).run(&[]);
    ran.exits_with(0);
    ran
}

fn gpu_reports(ran: &Ran) -> Vec<String> {
    let output = ran.output();
    let report = |line: &str| {
        let words = line.split(['|', '"', '[', ']']).map(|word| word.trim_matches([',', ' ']));
        let prefixes = ["agent_name=", "gpu_index=", "CUDA_", "AZ_BATCHAI_"];
        let kept = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
        kept.collect::<Vec<_>>().join(" ")
    };
    let mut reports: Vec<String> = output.lines().map(report).collect();
    reports.sort();
    reports.dedup();
    reports
}

/// Rules G1, G3, V1 (docs/parallel-run-step.md): the worker gets the lowest free index, even if the
/// job file sets `CUDA_VISIBLE_DEVICES`.
#[test]
fn a_worker_gets_a_gpu() {
    if has_driver() {
        return;
    }
    let reports = reports_with(
        "gpus: 2\nprocess_count_per_node: 1\nenvironment_variables: {CUDA_VISIBLE_DEVICES: '7'}",
    );
    let expected = "agent_name=process000 gpu_index=Some(0) AZ_BATCHAI_GPU_COUNT_FOUND=2 \
                    CUDA_VISIBLE_DEVICES=0";
    assert_eq!(reports, [expected]);
}

/// Rules G2, V1: for a worker without a GPU, `CUDA_VISIBLE_DEVICES` is missing, not empty.
#[test]
fn workers_beyond_the_number_of_gpus_have_no_gpu() {
    if has_driver() {
        return;
    }
    for line in reports_with("gpus: 1\nprocess_count_per_node: 2") {
        let (expected, agent) = match line.contains("process000") {
            true => ("gpu_index=Some(0) AZ_BATCHAI_GPU_COUNT_FOUND=1 CUDA_VISIBLE_DEVICES=0", 0),
            false => ("gpu_index=None AZ_BATCHAI_GPU_COUNT_FOUND=1", 1),
        };
        assert_eq!(line, format!("agent_name=process00{agent} {expected}"));
    }
    assert_eq!(
        reports_with("gpus: 0\nprocess_count_per_node: 1"),
        ["agent_name=process000 gpu_index=None"]
    );
}

/// Rules G1, G2: four workers on two GPUs are killed again and again. No GPU ever has two workers, a new
/// worker gets the GPU of the killed worker, and two workers always run without a GPU.
#[test]
fn a_gpu_never_has_two_workers() {
    if has_driver() {
        return;
    }
    let machine = MachineWithGpus::new();
    let job = machine
        .job("hostile_files")
        .env("AZ_BATCHAI_GPU_COUNT_FOUND", "2")
        .yaml("inputs: {files: in}\nmini_batch_size: 1\nprocess_count_per_node: 4")
        .yaml("run_invocation_timeout: 1\nrun_max_try: 2\narguments: [--do, sleep]");
    let ran = (0..8).fold(job, |job, n| job.file(&format!("in/{n}.txt"), "x")).run(&[]);
    let events = fs::read_to_string(ran.dir().join("job/logs/sys/events.jsonl")).unwrap();
    let mut holders = BTreeMap::new();
    let mut starts = BTreeMap::new();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let kind = &event["kind"];
        let worker = kind["worker"].as_str().unwrap_or_default().to_owned();
        match kind["event"].as_str() {
            Some("worker_started") => {
                let gpu = kind["gpu_index"].as_u64();
                *starts.entry(gpu).or_insert(0) += 1;
                let Some(gpu) = gpu else { continue };
                assert!(gpu < 2, "{line}");
                let before = holders.insert(gpu, worker);
                assert!(before.is_none(), "{before:?} has the GPU: {line}");
            }
            Some("worker_exited") => holders.retain(|_, holder| *holder != worker),
            _ => {}
        }
    }
    for gpu in [Some(0), Some(1), None] {
        assert!(starts.get(&gpu).is_some_and(|starts| *starts >= 2), "{starts:?}\n{events}");
    }
}

/// Rule G1: two jobs never have the same GPU. The second job reports that it has no GPU, and continues
/// without one.
#[test]
fn a_gpu_never_has_two_jobs() {
    if has_driver() {
        return;
    }
    let machine = MachineWithGpus::new();
    let first = machine.start_sleeping_job();
    let second = run(&machine, "gpus: 1\nprocess_count_per_node: 1");
    let notice = format!(
        "note: no worker of this job gets a GPU; GPU 0 is taken by the job of process {}, or one of \
         its workers that still runs; if the job needs these GPUs, start it again once they are free",
        first.pid()
    );
    assert!(second.stderr.contains(&notice), "{}", second.stderr);
    assert_eq!(
        gpu_reports(&second),
        ["agent_name=process000 gpu_index=None AZ_BATCHAI_GPU_COUNT_FOUND=1"]
    );
    // If there are two GPUs, the second one is free.
    let third = run(&machine, "gpus: 2\nprocess_count_per_node: 1");
    let expected = "agent_name=process000 gpu_index=Some(1) AZ_BATCHAI_GPU_COUNT_FOUND=2 \
                    CUDA_VISIBLE_DEVICES=1";
    assert_eq!(gpu_reports(&third), [expected]);
}

/// Rule G1: a killed leader does not block a GPU.
#[test]
fn the_gpu_of_a_killed_leader_becomes_free() {
    if has_driver() {
        return;
    }
    let machine = MachineWithGpus::new();
    let mut first = machine.start_sleeping_job();
    let workers = first.children();
    first.kill_leader();
    first.wait().exits_with(-9);
    // The kernel kills the workers with their leader, which takes a moment.
    let is_running = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    while workers.iter().any(|(pid, _)| is_running(*pid)) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let second = run(&machine, "gpus: 1\nprocess_count_per_node: 1");
    let expected = "agent_name=process000 gpu_index=Some(0) AZ_BATCHAI_GPU_COUNT_FOUND=1 \
                    CUDA_VISIBLE_DEVICES=0";
    assert_eq!(gpu_reports(&second), [expected]);
}
