//! Inference by the host: results and errors for an entry script that uses `wasi:nn`.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Fate, TestJob, guest, onnx_model, play_with, redact};
use std::fs;

/// A model that doubles its input.
fn double() -> Vec<u8> {
    onnx_model(["N", "2"], &[("Add", &["x", "x"], "y")])
}

/// A model that multiplies matrices 201 times.
fn slow() -> Vec<u8> {
    let names: Vec<String> = (0..200).map(|n| format!("h{n}")).collect();
    let mut nodes: Vec<(&str, Vec<&str>, &str)> = Vec::new();
    let mut last = "x";
    for name in &names {
        nodes.push(("MatMul", vec![last, "x"], name));
        last = name;
    }
    nodes.push(("MatMul", vec![last, "x"], "y"));
    let nodes: Vec<(&str, &[&str], &str)> =
        nodes.iter().map(|(op, inputs, output)| (*op, inputs.as_slice(), *output)).collect();
    onnx_model(["M", "M"], &nodes)
}

/// The models in a temporary folder, and the lines of a job file that name them.
fn models() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("double.onnx"), double()).unwrap();
    fs::write(path("slow.onnx"), slow()).unwrap();
    let model = |name: &str| {
        let path = path(&format!("{name}.onnx"));
        format!("  {name}: {{path: {}, backend: tract}}\n", path.display())
    };
    let lines = format!("models:\n{}{}", model("double"), model("slow"));
    (folder, lines)
}

/// The row of a mini-batch without a mistake.
fn good_row(_: usize, name: &str) -> String {
    format!("{name} 2 4 6 8")
}

fn gives_row(row: &str) -> Fate {
    Fate::Gives(vec![row.to_owned()])
}

#[test]
fn a_component_with_plain_wasi_nn_computes() {
    let (_folder, models) = models();
    let ran = TestJob::new(&guest("nn_plain"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 2")
        .yaml(&models)
        .file("in/a.txt", "")
        .file("in/b.txt", "four")
        .file("in/c.txt", "x".repeat(1000))
        .run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt 0", "b.txt 8", "c.txt 2000"], "{ran}");
}

/// Each of these acts makes one mistake. The guest receives the error, which becomes the reason of the
/// failure.
#[test]
fn wrong_calls_get_errors_and_harm_no_other_mini_batch() {
    let (_folder, models) = models();
    let fails = Fate::Fails;
    let acts = [
        (
            "describe",
            gives_row(
                "001-describe.txt double slow; double on cpu of tract; x ElementType::Standard(TensorType::Fp32) Some([Dimension::Named(\"N\"), Dimension::Fixed(2)]); y ElementType::Standard(TensorType::Fp32) Some([Dimension::Named(\"N\"), Dimension::Fixed(2)])",
            ),
        ),
        ("unknown-model", fails("ErrorCode::NotFound: there is no model")),
        ("path-for-a-name", fails("ErrorCode::NotFound")),
        ("unknown-input", fails("(f32 [N, 2])")),
        ("input-twice", fails("is given twice")),
        ("no-input", fails("is missing; the model takes")),
        ("wrong-type", fails(r#"expected f32 [N, 2], got i64 [1, 1]"#)),
        ("wrong-shape", fails(r#"expected f32 [N, 2], got f32 [4]"#)),
        ("wrong-bytes", fails(r#"f32 [2, 2] takes 16 bytes of data, and got 15"#)),
        ("trap", fails("panicked in run")),
        ("many-tensors", fails("limits.handles allows")),
        ("large-tensors", fails("limits.tensors allows 256 MB of tensors at a time")),
        ("many-in-turn", gives_row("025-many-in-turn.txt 2 4 6 8")),
        ("load-bytes", fails("ErrorCode::Security: models from bytes are off")),
        ("load-bytes-for-a-gpu", fails("ErrorCode::Security: models from bytes are off")),
        ("another-encoding", fails("ErrorCode::InvalidEncoding: the encoding is pytorch")),
    ];
    let settings = format!("process_count_per_node: 1\n{models}");
    play_with(&guest("nn_acts"), &settings, &acts, good_row, |_| double());
}

/// Error texts have a maximum length, so that errors that a guest never drops cannot fill the memory.
#[test]
fn errors_that_are_never_dropped() {
    let (_folder, models) = models();
    let limits = "{memory: 32 MB, results: 1 MB, read: 1 MB, tensors: 1 MB, handles: 1000}";
    let settings = format!("process_count_per_node: 1\nlimits: {limits}\n{models}");
    let acts = [("many-errors", Fate::Fails("limits.handles allows 1000"))];
    play_with(&guest("nn_acts"), &settings, &acts, good_row, |_| Vec::new());
}

#[test]
fn models_from_bytes_if_the_job_allows_them() {
    let (_folder, models) = models();
    let settings =
        format!("process_count_per_node: 1\ninference: {{allow_guest_models: true}}\n{models}");
    let acts = [
        ("load-bytes", gives_row("001-load-bytes.txt 2 4 6 8")),
        ("load-bytes-for-a-gpu", Fate::Fails("ErrorCode::Security")),
        ("load-bytes", gives_row("005-load-bytes.txt 2 4 6 8")),
    ];
    play_with(&guest("nn_acts"), &settings, &acts, good_row, |_| double());
}

/// The timeout kills the worker that computes, and the next worker continues.
#[test]
fn an_endless_computation() {
    let (_folder, models) = models();
    let settings = format!("process_count_per_node: 1\nrun_invocation_timeout: 3\n{models}");
    let acts = [("without-end", Fate::Fails("run took longer"))];
    play_with(&guest("nn_acts"), &settings, &acts, good_row, |_| Vec::new());
}

/// In a job without models, the interfaces exist, but every load fails.
#[test]
fn a_job_without_models() {
    let ran = TestJob::new(&guest("nn_plain"))
        .yaml("inputs: {texts: in}\nrun_max_try: 1")
        .file("in/a.txt", "")
        .run(&[]);
    ran.exits_with(42);
    assert!(redact(&ran.stderr, ran.dir()).contains("the job file has no models"), "{ran}");
}

#[test]
fn check_computes_with_a_model() {
    let ran = TestJob::empty().file("a.txt", "four").file("double.onnx", double()).command(&[
        "check",
        &guest("nn_plain").display().to_string(),
        "--model",
        "double=double.onnx",
        "--run",
        "a.txt",
    ]);
    ran.exits_with(0);
    assert!(ran.stdout.contains("a.txt 8"), "{ran}");
}
