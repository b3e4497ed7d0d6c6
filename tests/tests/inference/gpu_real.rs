//! Tests that need an NVIDIA GPU. On a machine without one, they print that they are skipped, or fail if
//! `SANDMILL_REQUIRE_GPU=1` is set.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, computing, example, guest, onnx_model, root, sandmill};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The lines of `nvidia-smi`, one for each GPU: index, UUID, name, megabytes. `None` if there is no GPU.
fn gpus() -> Option<Vec<Vec<String>>> {
    let fields = "--query-gpu=index,uuid,name,memory.total";
    let output =
        Command::new("nvidia-smi").args([fields, "--format=csv,noheader,nounits"]).output();
    let found: Vec<Vec<String>> = match output {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| line.split(',').map(|field| field.trim().to_owned()).collect())
            .collect(),
        _ => Vec::new(),
    };
    if found.is_empty() {
        let is_required = std::env::var("SANDMILL_REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(!is_required, "SANDMILL_REQUIRE_GPU is 1, and nvidia-smi finds no GPU");
        println!("skipped: no GPU");
        return None;
    }
    Some(found)
}

fn doctor(visible: Option<&str>) -> Value {
    let mut command = Command::new(sandmill());
    command.args(["doctor", "--json"]).env_remove("CUDA_VISIBLE_DEVICES");
    command.envs(visible.map(|visible| ("CUDA_VISIBLE_DEVICES", visible)));
    serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()["gpus"].take()
}

/// Sandmill lists the same GPUs as `nvidia-smi`. If MIG is on, Sandmill also lists parts of GPUs (MIG
/// instances), which the table of `nvidia-smi` does not have.
#[test]
fn the_inventory_equals_that_of_nvidia_smi() {
    let Some(expected) = gpus() else { return };
    let found = doctor(None);
    let listed = found["gpus"].as_array().unwrap();
    assert!(!listed.is_empty() && found["driver"].is_string(), "{found}");
    for gpu in listed.iter().filter(|gpu| gpu["part_of"].is_null()) {
        let row =
            expected.iter().find(|row| gpu["uuid"] == row[1].as_str()).expect("the same UUID");
        assert_eq!(
            (gpu["index"].to_string(), &gpu["name"]),
            (row[0].clone(), &row[2].as_str().into())
        );
        let megabytes = gpu["memory"].as_u64().unwrap() >> 20;
        assert_eq!(megabytes.to_string(), row[3], "{gpu}");
    }
    assert_eq!(doctor(Some(""))["count"], 0);
    assert_eq!(doctor(Some(&expected[0][1]))["gpus"][0]["uuid"], expected[0][1].as_str());
}

fn job(machine: &Path, script: &str) -> TestJob {
    let folder = machine.join("machine");
    TestJob::new(&guest(script))
        .env("SANDMILL_MACHINE_DIRECTORY", folder.to_str().unwrap())
        .yaml("inputs: {files: in}\nmini_batch_size: 1\nprocess_count_per_node: 1\ngpus: 1")
        .file("in/a.txt", "x")
}

/// Rule G1 (docs/parallel-run-step.md): if a leader is killed, its GPU becomes free when the worker
/// has ended. Rule G3: Sandmill leases the GPUs that the driver lists, and the resource samples
/// have columns for the GPU.
#[test]
fn a_lease_ends_with_its_worker() {
    if gpus().is_none() {
        return;
    }
    let machine = tempfile::tempdir().unwrap();
    let mut first = job(machine.path(), "hostile_files")
        .yaml("run_invocation_timeout: 120\narguments: [--do, sleep]")
        .start(&[]);
    let log = |dir: &Path| {
        fs::read_to_string(dir.join("job/logs/sys/node/0/_main.txt")).unwrap_or_default()
    };
    first.until("a worker", |first| log(first.dir()).contains("process000 starts, pid"));
    assert!(log(first.dir()).contains(", GPU "), "{}", log(first.dir()));
    let samples = |dir: &Path| {
        fs::read_to_string(dir.join("job/logs/perf/0/node_resource_usage.csv")).unwrap_or_default()
    };
    first.until("a sample", |first| samples(first.dir()).lines().count() > 1);
    assert!(samples(first.dir()).contains(" Power (W),"), "{}", samples(first.dir()));
    let workers = first.children();
    first.kill_leader();
    first.wait().exits_with(-9);
    while workers.iter().any(|(pid, _)| Path::new(&format!("/proc/{pid}")).exists()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = job(machine.path(), "echo_files").run(&[]);
    second.exits_with(0);
    assert!(log(second.dir()).contains(", GPU "), "{}", log(second.dir()));
}

/// `sandmill gpu-prepare` compiles for the GPU, or reports why it cannot.
#[test]
fn a_gpu_is_prepared_or_the_reason_reported() {
    let has_gpu = gpus().is_some();
    let output = prepare_gpu();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if has_gpu {
        assert!(output.status.success(), "{messages}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("the process that makes a GPU ready stops: CUDA cannot be used"),
        "{messages}"
    );
    assert!(!messages.contains("panicked"), "{messages}");
}

/// Compiles in advance what a job would compile at its start. This takes minutes the first time.
fn prepare_gpu() -> Output {
    let folder = root().join("target/test-cache/cuda");
    fs::create_dir_all(&folder).unwrap();
    let libraries = std::env::var_os("SANDMILL_CUDA_LIBRARIES");
    Command::new(sandmill())
        .arg("gpu-prepare")
        .env("XDG_CACHE_HOME", folder)
        .env("CUDA_HOME", std::env::var_os("CUDA_HOME").unwrap_or("/usr/local/cuda".into()))
        .envs(libraries.map(|folders| ("LD_LIBRARY_PATH", folders)))
        .output()
        .unwrap()
}

/// Runs a job over the digits of the example. `settings`: further settings of the model.
fn digits(machine: &Path, settings: &str, workers: u32) -> Ran {
    assert!(prepare_gpu().status.success());
    let data = root().join("examples/digit-identification/data");
    let images = data.join("images");
    let model = data.join("models/digits.onnx");
    TestJob::new(&example("digit-identification"))
        .env("SANDMILL_MACHINE_DIRECTORY", machine.join("machine").to_str().unwrap())
        .yaml(&format!("inputs: {{images: {}}}\nmini_batch_size: 20\ngpus: 1", images.display()))
        .yaml(&format!("process_count_per_node: {workers}\nrun_max_try: 1"))
        .yaml(&format!("models: {{digits: {{path: {}, {settings}}}}}", model.display()))
        .run(&[])
}

/// Checks that all rows equal scikit-learn's predictions.
fn assert_equal_to_scikit_learn(ran: &Ran) {
    let expected = root().join("examples/digit-identification/expected/digits.txt");
    let expected = fs::read_to_string(expected).unwrap();
    let mut expected: Vec<&str> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(ran.sorted_output(), expected, "{ran}");
}

#[test]
fn digits_on_the_gpu_equal_those_on_the_cpu() {
    if gpus().is_none() {
        return;
    }
    let machine = tempfile::tempdir().unwrap();
    let ran = digits(machine.path(), "device: gpu", 1);
    ran.exits_with(0);
    assert_equal_to_scikit_learn(&ran);
    let result = ran.log("job_result.txt");
    assert!(result.contains("  inference     90 calls on gpu"), "{result}");
}

/// Rule G2: with two workers and one GPU, one worker has no GPU. Its models run on the CPU if the job allows
/// this. Otherwise its models fail.
#[test]
fn two_workers_share_no_gpu() {
    if gpus().is_none() {
        return;
    }
    let machine = tempfile::tempdir().unwrap();
    let ran = digits(machine.path(), "device: gpu, fallback: cpu", 2);
    ran.exits_with(0);
    assert_equal_to_scikit_learn(&ran);
    let attempts = ran.log("sys/job_report/processed_mini-batches.csv");
    // The test does not expect rows from the GPU, because the worker with the GPU may start so late that all
    // mini-batches are done.
    assert!(attempts.contains(",cpu (fell back)"), "{attempts}");
    let ran = digits(machine.path(), "device: gpu", 2);
    ran.says("no GPU is leased to this worker");
}

/// If a computation needs more memory than the GPU has, the attempt fails as `device_out_of_memory`. The next
/// attempt can use the GPU's memory again.
#[test]
fn a_full_gpu_fails_the_attempt() {
    let Some(gpus) = gpus() else { return };
    assert!(prepare_gpu().status.success());
    let megabytes: f64 = gpus[0][3].parse().unwrap();
    // The product of a column and a row is a square matrix of 4-byte numbers, 1.5 times the GPU's memory.
    let name = "outer";
    let nodes: &[(&str, &[&str], &str)] =
        &[("Transpose", &["x"], "t"), ("MatMul", &["x", "t"], "m"), ("MatMul", &["m", "x"], "y")];
    let folder = tempfile::tempdir().unwrap();
    let model: PathBuf = folder.path().join(format!("{name}.onnx"));
    fs::write(&model, onnx_model(["N", "1"], nodes)).unwrap();
    let tensor = |count: usize| format!("x f32 {count}x1 {}\n", "0000803f".repeat(count));
    let large = sandmill::model::whole((megabytes * 1.5 * f64::from(1 << 20) / 4.0).sqrt());
    let large = usize::try_from(large).unwrap();
    let ran = computing("backend: tract, device: gpu", &[])
        .env("SANDMILL_MACHINE_DIRECTORY", folder.path().join("machine").to_str().unwrap())
        .yaml(&format!("  {name}: {{path: {}, backend: tract, device: gpu}}", model.display()))
        .yaml("process_count_per_node: 1\ngpus: 1\nrun_max_try: 1\nerror_threshold: 1")
        .file("inputs/outer-1.tensors", tensor(large))
        .file("inputs/outer-2.tensors", tensor(2))
        .run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "outer-2 y f32 2x1 0000004000000040\n");
    let attempts = ran.log("sys/job_report/processed_mini-batches.csv");
    assert!(attempts.contains("device_out_of_memory"), "{attempts}");
}
