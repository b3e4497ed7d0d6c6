//! Jobs with models, on machines with different libraries for them.

use crate::cluster::Cluster;
use sandmill_tests::{Ran, TestJob, guest, onnxruntime, root};
use serde_json::Value;
use std::fs;

/// How many mini-batches the job has.
const INPUTS: usize = 6;

/// A job whose model runs on ONNX Runtime where that is installed, and otherwise on tract.
fn job(nodes: u32) -> TestJob {
    let model = root().join("tests/models/mlp.onnx");
    let job = TestJob::new(&guest("computes")).yaml(&format!(
        "inputs: {{tensors: inputs}}\nmini_batch_size: 1\nmodels: {{mlp: {{path: {}, device: cpu}}}}\n\
         process_count_per_node: 1\nnode_count: {nodes}\noutput: shared/out\njob_store: shared/jobs\n",
        model.display()
    ));
    fs::create_dir_all(job.path("shared/jobs")).unwrap();
    let tensor = format!("x f32 1x64 {}\n", "0000803f".repeat(64));
    (0..INPUTS).fold(job, |job, n| job.file(&format!("inputs/mlp-{n}.tensors"), &tensor))
}

/// An agent of a machine that has ONNX Runtime. The leader has not.
fn start_with_onnxruntime(cluster: &mut Cluster) {
    let library = onnxruntime().display().to_string();
    cluster.add_agent(&["--onnxruntime", &library], &[]);
}

#[track_caller]
fn assert_rows(ran: &Ran) {
    let rows = ran.text("shared/out/parallel_run_step.txt");
    assert_eq!(rows.lines().filter(|row| row.contains(" y f32 1x10 ")).count(), INPUTS, "{ran}");
}

/// A machine with other libraries takes no part. The message names both, and what to do.
#[test]
fn a_machine_with_other_backends_takes_no_part() {
    let mut cluster = Cluster::new();
    start_with_onnxruntime(&mut cluster);
    let mut running = cluster.start(job(1), "leader", &[]);
    running.until("the machine is refused", |running| {
        running.stderr_so_far().contains("the machine machine-0 takes no part: models would be")
    });
    cluster.agent(0).until("or start the job with --allow-mixed");
    cluster.start_agents(1);
    let ran = running.wait();
    ran.exits_with(0);
    assert_rows(&ran);
    let (_, said) = ran.stderr.split_once("models would be computed there by tract ").unwrap();
    let (version, rest) = said.split_once(" and onnxruntime 1.").unwrap();
    let expected =
        format!(" on CPU, and the job uses tract {version} on CPU: install the same libraries");
    assert!(rest.contains(&expected), "{ran}");
    let state: Value = serde_json::from_str(&ran.text("leader/job.json")).unwrap();
    assert!(state["result"]["mixed_backends"].is_null(), "{state}");
}

/// If the job allows it, such a machine takes part. The events, the status and the result say so.
#[test]
fn a_job_may_allow_mixed_backends() {
    let mut cluster = Cluster::new();
    start_with_onnxruntime(&mut cluster);
    let ran = cluster.start(job(1), "leader", &["--allow-mixed"]).wait();
    ran.exits_with(0);
    assert_rows(&ran);
    let state: Value = serde_json::from_str(&ran.text("leader/job.json")).unwrap();
    let mixed = state["result"]["mixed_backends"][0].as_str().unwrap_or_else(|| panic!("{state}"));
    assert!(mixed.starts_with("tract ") && mixed.contains(" and onnxruntime 1."), "{mixed}");
    assert!(mixed.ends_with(" on CPU"), "{mixed}");
    ran.says(&format!("some nodes computed models by {mixed} (allow_mixed_backends)"));
    let recorded = fs::read_dir(ran.dir().join("shared/jobs/test")).unwrap();
    let mut recorded = recorded.map(|entry| entry.unwrap().path().join("workers/nodes/backends"));
    let recorded = recorded.find(|path| path.is_file()).unwrap();
    let recorded: Value = serde_json::from_slice(&fs::read(recorded).unwrap()).unwrap();
    let libraries = recorded["libraries"].as_array().unwrap();
    assert!(libraries.len() == 1 && libraries[0].as_str().unwrap().starts_with("tract "));
    let status = ran.into_job().command(&["status", "leader", "--json"]);
    let found: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(found["mixed_backends"]["0"], mixed, "{status}");
    let logs = status.dir().join("leader/logs/sys");
    let leader = fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path());
    let mut leader = leader.filter(|path| path.to_string_lossy().contains("master_role"));
    let text = fs::read_to_string(leader.next().unwrap()).unwrap();
    assert!(
        text.contains(&format!("node 0 computes models by {mixed}, and not as other nodes")),
        "{text}"
    );
}
