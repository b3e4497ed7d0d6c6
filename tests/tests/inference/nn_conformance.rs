//! Runs the same models on each backend, in whole jobs, and compares the results with onnxruntime in Python.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails, with the place")]

use insta::assert_snapshot;
use sandmill_tests::{TestJob, computing, models_in, python, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

/// The allowed differences from Python's numbers. A GPU rounds differently than a CPU.
const TOLERANCE: f64 = 1e-4;
const GPU_TOLERANCE: f64 = 1e-3;

/// The rows that the guest `computes` returns, or the rows that are expected. The key is a file and the name
/// of an output. If the computation was refused, the key has `refused` instead of the output's name.
type RowsByNames = BTreeMap<(String, String), String>;

fn rows(text: &str) -> RowsByNames {
    let row = |line: &str| {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_else(|| panic!("no row: {line}"));
        ((next(), next()), next())
    };
    text.lines().map(row).collect()
}

/// Writes the inputs of all models into the job's folder. Returns the expected outputs.
fn reference(job: &TestJob) -> RowsByNames {
    let output = Command::new(python())
        .arg(root().join("tests/models/reference.py"))
        .arg(job.dir())
        .env("ORT_DISABLE_TELEMETRY", "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "reference.py failed:\n{errors}");
    rows(&String::from_utf8_lossy(&output.stdout))
}

/// Parses a tensor: the type and dimensions, and the numbers.
#[expect(clippy::cast_precision_loss, reason = "whole numbers of these models are small")]
fn tensor(text: &str) -> (&str, Vec<f64>) {
    let (head, digits) = text.rsplit_once(' ').unwrap_or_else(|| panic!("no tensor: {text}"));
    let bytes: Vec<u8> = (0..digits.len())
        .step_by(2)
        .map(|start| u8::from_str_radix(&digits[start..start + 2], 16).unwrap())
        .collect();
    let numbers = match head.split(' ').next() {
        Some("f16") => numbers(&bytes, |number| half(u16::from_le_bytes(number))),
        Some("f32") => numbers(&bytes, |number| f64::from(f32::from_le_bytes(number))),
        Some("f64") => numbers(&bytes, f64::from_le_bytes),
        Some("u8") => numbers(&bytes, |[byte]| f64::from(byte)),
        Some("i32") => numbers(&bytes, |number| f64::from(i32::from_le_bytes(number))),
        Some("i64") => numbers(&bytes, |number| i64::from_le_bytes(number) as f64),
        _ => panic!("no type: {head}"),
    };
    (head, numbers)
}

/// Converts each chunk of `N` bytes to a number.
fn numbers<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|chunk| convert(*chunk)).collect()
}

/// The value of a finite 16-bit float.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let fraction = f64::from(bits & 1023) / 1024.0;
    match i32::from(bits >> 10 & 31) {
        0 => sign * fraction * 2f64.powi(-14),
        exponent => sign * (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

/// Runs models on a backend. For each model, returns `same`, or the text of the refusal.
fn run_models(backend: &str, models: &[String], device: &str, tolerance: f64) -> Vec<String> {
    let job = computing(&format!("backend: {backend}, device: {device}"), models);
    let expected = reference(&job);
    let computations = std::fs::read_dir(job.path("inputs")).unwrap().count();
    let ran = job.yaml("process_count_per_node: 2").run(&[]);
    ran.exits_with(0);
    let actual = rows(&ran.output());
    let refused = actual.keys().filter(|(_, output)| output == "refused").count();
    let summary = format!("  inference     {} calls on {device}", computations - refused);
    assert!(ran.log("job_result.txt").contains(&summary), "expected {summary}\n{ran}");
    let outcome = |model: &String| {
        let rows_of_model = |rows: &RowsByNames| -> RowsByNames {
            let is_of_model =
                |file: &str| file.rsplit_once('-').is_some_and(|(name, _)| name == model);
            rows.iter()
                .filter(|((file, _), _)| is_of_model(file))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        };
        let expected = rows_of_model(&expected);
        let actual = rows_of_model(&actual);
        match actual.iter().find(|((_, output), _)| output == "refused") {
            Some((_, reason)) => reason.clone(),
            None => compare(backend, &expected, &actual, tolerance),
        }
    };
    models.iter().map(outcome).collect()
}

/// Returns `same`. Fails with the difference if rows differ.
fn compare(backend: &str, expected: &RowsByNames, actual: &RowsByNames, tolerance: f64) -> String {
    assert!(
        expected.keys().eq(actual.keys()),
        "{backend}: {:?} {:?}",
        expected.keys(),
        actual.keys()
    );
    for (output, text) in expected {
        let expected = tensor(text);
        let actual = tensor(&actual[output]);
        assert_eq!(expected.0, actual.0, "{output:?} on {backend}");
        assert_eq!(expected.1.len(), actual.1.len(), "{output:?} on {backend}");
        for (expected, actual) in expected.1.iter().zip(&actual.1) {
            let is_near = (expected - actual).abs() <= tolerance;
            assert!(is_near, "{output:?} on {backend}: {actual}, not {expected}");
        }
    }
    "same".to_owned()
}

/// Each model on each backend, with batches of one and of seven.
#[test]
fn every_model_on_each_backend() {
    let models = models_in("");
    let [tract, onnxruntime] =
        ["tract", "onnxruntime"].map(|backend| run_models(backend, &models, "cpu", TOLERANCE));
    let mut table = format!("{:24}{:8}{}\n", "", "tract", "onnxruntime");
    for ((model, tract), onnxruntime) in models.iter().zip(&tract).zip(&onnxruntime) {
        writeln!(table, "{model:24}{tract:8}{onnxruntime}").unwrap();
    }
    println!("{table}");
    assert_snapshot!(table, @"
                            tract   onnxruntime
    attention               same    same
    boosted_regressor       same    same
    boosted_trees           same    same
    cnn                     same    same
    digits_mlp              same    same
    embedding_i64           same    same
    image_u8                same    same
    linear_f16              same    same
    linear_f64              same    same
    logistic_regression     same    same
    mlp                     same    same
    offset_i32              same    same
    random_forest           same    same
    scaled_regression       same    same
    two_inputs_two_outputs  same    same
    ");
}

/// Four of the models on a GPU, with a backend that can use the GPU. `digits_mlp` may fail there, but the
/// other models must give the same results.
#[test]
fn models_on_a_gpu() {
    if !std::path::Path::new("/dev/nvidiactl").exists() {
        assert_ne!(std::env::var("SANDMILL_REQUIRE_GPU").as_deref(), Ok("1"), "no GPU");
        println!("skipped: no GPU");
        return;
    }
    let models = ["attention", "cnn", "digits_mlp", "mlp"].map(str::to_owned);
    let outcomes = run_models("auto", &models, "gpu", GPU_TOLERANCE);
    for (model, outcome) in models.iter().zip(&outcomes) {
        println!("{model:24}{outcome}");
        assert!(outcome == "same" || model == "digits_mlp", "{model}: {outcome}");
    }
}
