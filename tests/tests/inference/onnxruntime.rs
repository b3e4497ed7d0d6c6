//! Jobs that use ONNX Runtime, and jobs for which it is missing.

use sandmill_tests::{Ran, TestJob, guest, onnx_model, onnxruntime};

/// A job with a model that doubles numbers. Its guest reports the backend. `model`: further settings of the
/// model.
fn job(model: &str) -> TestJob {
    TestJob::new(&guest("nn_acts"))
        .file("in/0-good.txt", "")
        .file("in/1-describe.txt", "")
        .file("double.onnx", onnx_model(["n", "2"], &[("Add", &["x", "x"], "y")]))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nrun_max_try: 1\nos_sandbox: required")
        .yaml(&format!("models: {{double: {{path: double.onnx{model}}}}}"))
        .env("SANDMILL_ONNXRUNTIME", "")
        .env("ORT_DYLIB_PATH", "")
}

/// Checks the results, and returns the backend that computed them.
fn backend(ran: &Ran) -> String {
    ran.exits_with(0);
    let output = ran.sorted_output();
    assert_eq!(output[0], "0-good.txt 2 4 6 8", "{ran}");
    let description = output[1].split("; ").nth(1).unwrap_or_default();
    description.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// ONNX Runtime works behind the full wall. With one thread, it computes in the guest's thread. With two, it
/// starts another thread.
#[test]
fn a_job_computes_with_onnxruntime() {
    let library = onnxruntime().display().to_string();
    for threads in ["", "inference: {threads: 1}", "inference: {threads: 2}"] {
        let job = job(", backend: onnxruntime").env("SANDMILL_ONNXRUNTIME", &library);
        assert_eq!(backend(&job.yaml(threads).run(&[])), "onnxruntime", "{threads}");
    }
    // ONNX Runtime is also used if the job names no backend.
    let ran = job("").run(&["--onnxruntime", &library]);
    assert_eq!(backend(&ran), "onnxruntime");
    ran.says(" on cpu by onnxruntime, ");
    let report = ran.log("sys/job_report/processed_mini-batches.csv");
    assert!(report.contains(",cpu,onnxruntime\n"), "{report}");
}

#[test]
fn tract_replaces_a_missing_onnxruntime() {
    assert_eq!(backend(&job("").run(&[])), "tract");
    let ran = job("").env("SANDMILL_ONNXRUNTIME", "nowhere").run(&[]);
    ran.says("tract is used instead of onnxruntime: SANDMILL_ONNXRUNTIME names nowhere");
    assert_eq!(backend(&ran), "tract");
}

#[test]
fn a_job_that_needs_onnxruntime_does_not_start_without() {
    let ran = job(", backend: onnxruntime").run(&[]);
    ran.exits_with(2)
        .says("models.double.backend is onnxruntime, and its library was not found: run");
    let ran = job("").run(&["--onnxruntime", "nowhere"]);
    ran.exits_with(2).says("--onnxruntime names nowhere");
    assert!(!ran.has("job"), "{ran}");
}
