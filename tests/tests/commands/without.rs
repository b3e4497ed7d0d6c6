//! A build without features: jobs that need no feature run as usual, and others are refused with a message.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, root, sandmill_without};
use serde_json::{Value, json};

/// Runs a command of the build without features, until it ends.
fn run(job: TestJob, arguments: &[&str]) -> Ran {
    job.spawn_program(&sandmill_without(), arguments).wait()
}

const RUN: [&str; 4] = ["run", "job.yaml", "--job-dir", "job"];

/// The message about a job that needs a missing feature. The job must not have begun.
fn refused(job: TestJob) -> String {
    let ran = run(job, &RUN);
    ran.exits_with(2);
    assert!(!ran.has("job"), "{ran}");
    ran.redacted()
}

fn texts() -> TestJob {
    TestJob::new(&guest("echo_files")).yaml("inputs: {texts: in}").file("in/a.txt", "1")
}

#[test]
fn a_job_over_tables_runs() {
    let job = TestJob::new(&guest("echo_table"))
        .file("in.csv", "id,name\n1,one\n2,two\n3,three\n")
        .yaml("inputs: {rows: {path: in.csv, format: csv}}\npartition_keys: [id]\narguments: [--rows]");
    let ran = run(job, &RUN);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["1,one", "2,two", "3,three"]);
    let again = run(ran.into_job(), &RUN);
    again.exits_with(0).says("nothing has changed");
}

#[test]
fn stores_are_refused() {
    let input = || TestJob::new(&guest("echo_files")).yaml("inputs: {texts: s3://bucket/texts}");
    assert_snapshot!(refused(input()), @"error: inputs.texts.path is s3://bucket/texts, and this sandmill was built without stores (feature `stores`): copy its files to this machine, or use a build with that feature");
    let planned = run(input(), &["plan", "job.yaml"]);
    assert_eq!(planned.exits_with(2).redacted(), refused(input()));
    assert_snapshot!(refused(texts().yaml("output: s3://bucket/out")), @"error: output is s3://bucket/out, and this sandmill was built without stores (feature `stores`): name a folder of this machine, or use a build with that feature");
}

#[test]
fn models_are_refused() {
    let model = root().join("tests/models/mlp.onnx").display().to_string();
    let job = texts().yaml(&format!("models: {{digits: {model}}}"));
    assert_snapshot!(refused(job), @"error: the job uses models.digits, and this sandmill was built without inference (feature `inference`): use a build with that feature");
    let script = guest("computes").display().to_string();
    let model = format!("digits={model}");
    let arguments = ["check", &script, "--run", "a.txt", "--model", &model];
    let checked = run(TestJob::empty().file("a.txt", ""), &arguments);
    checked.exits_with(42);
    assert!(checked.stdout.contains("REFUSED: it is for inference"), "{checked}");
    let script = guest("echo_files").display().to_string();
    let arguments = ["check", &script, "--run", "a.txt", "--model", &model];
    let checked = run(TestJob::empty().file("a.txt", ""), &arguments);
    assert_snapshot!(checked.exits_with(2).redacted(), @"error: --model gives digits, and this sandmill was built without inference (feature `inference`): use a build with that feature");
}

#[test]
fn a_component_that_computes_is_refused() {
    let job = TestJob::new(&guest("computes")).yaml("inputs: {texts: in}").file("in/a.txt", "1");
    assert_snapshot!(refused(job), @"
    error: [REPO]/target/guests/wasm32-wasip2/release/examples/computes.wasm: the entry script imports interfaces that are not granted:
      wasi:nn/tensor@0.2.0-rc-2024-10-28: it is for inference, and this sandmill was built without inference (feature `inference`): use a build with that feature
      wasi:nn/errors@0.2.0-rc-2024-10-28: it is for inference, and this sandmill was built without inference (feature `inference`): use a build with that feature
      wasi:nn/inference@0.2.0-rc-2024-10-28: it is for inference, and this sandmill was built without inference (feature `inference`): use a build with that feature
      wasi:nn/graph@0.2.0-rc-2024-10-28: it is for inference, and this sandmill was built without inference (feature `inference`): use a build with that feature
    ");
}

#[test]
fn gpus_are_refused_if_a_job_asks_for_them() {
    assert_snapshot!(refused(texts().yaml("gpus: 1")), @"error: gpus is 1, and this sandmill was built without CUDA (feature `cuda`): set it to 0, or use a build with that feature");
    // The environment offers GPUs, but the job does not ask for any.
    let ran = run(texts().env("AZ_BATCHAI_GPU_COUNT_FOUND", "2"), &RUN);
    ran.exits_with(0);
}

#[test]
fn the_doctor_lists_missing_features() {
    let doctor = run(TestJob::empty(), &["doctor"]);
    let left_out = "\nbuilt without inference, cuda, stores\n";
    assert!(doctor.stdout.contains(left_out), "{doctor}");
    let models = "\nInference backends:\n  -         this sandmill was built without inference \
                  (feature `inference`)\n";
    assert!(doctor.stdout.contains(models), "{doctor}");
    let gpus = "\n            this sandmill was built without CUDA (feature `cuda`)\n";
    assert!(doctor.stdout.contains(gpus), "{doctor}");
    let json = run(TestJob::empty(), &["doctor", "--json"]);
    let found: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    assert_eq!((&found["features"], &found["backends"]), (&json!([]), &json!([])));
}

#[test]
fn processes_report_the_features_that_they_lack() {
    for (command, reason) in [
        ("fetch-worker", "built without stores (feature `stores`)"),
        ("probe-backends", "built without inference (feature `inference`)"),
        ("gpu-prepare", "built without CUDA (feature `cuda`)"),
    ] {
        let ran = run(TestJob::empty(), &[command]);
        ran.exits_with(1).says(&format!("{command} stops: this sandmill was {reason}"));
    }
}
