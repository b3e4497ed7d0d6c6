//! How `sandmill doctor` finds, tries and reports the inference backends.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{onnxruntime, sandmill};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs `sandmill doctor`. Returns its lines and its JSON about onnxruntime. `library`: the value of
/// SANDMILL_ONNXRUNTIME.
fn doctor(library: Option<&Path>, arguments: &[&str]) -> (String, Value) {
    let run = |more: &[&str]| {
        let mut command = Command::new(sandmill());
        command.arg("doctor").args(arguments).args(more);
        command.env_remove("SANDMILL_ONNXRUNTIME").env_remove("ORT_DYLIB_PATH");
        if let Some(path) = library {
            command.env("SANDMILL_ONNXRUNTIME", path);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let printed = run(&[]);
    let lines = printed.lines().filter(|line| line.contains("onnxruntime"));
    let found: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let found = found["backends"].as_array().unwrap();
    let found = found.iter().find(|state| state["name"] == "onnxruntime").unwrap();
    (lines.collect::<Vec<_>>().join("\n"), found.clone())
}

/// The doctor runs a small model behind the wall, on two threads. This shows three things: the wall
/// allows all syscalls that ONNX Runtime needs, ONNX Runtime starts no thread before the wall is
/// built, and it needs no file after that.
#[test]
fn onnxruntime_computes_behind_the_wall() {
    let library = onnxruntime().canonicalize().unwrap();
    let package = library.ancestors().nth(2).unwrap();
    for named in [&library, package] {
        let (printed, found) = doctor(Some(named), &[]);
        assert!(found["missing"].is_null(), "{found}");
        assert_eq!(found["library"], library.to_str().unwrap());
        let version = found["version"].as_str().unwrap();
        assert!(version.starts_with("1."), "{found}");
        let expected = format!("  ok        onnxruntime {version}: {}", library.display());
        assert_eq!(printed.lines().next(), Some(&*expected));
        // The tests use onnxruntime's package without CUDA, so no GPU is offered.
        assert!(
            printed.contains("\n  -         onnxruntime on GPUs: it was built without CUDA"),
            "{printed}"
        );
    }
    // The library that the command line names takes precedence over the variable.
    let (_, found) =
        doctor(Some(Path::new("/nowhere")), &["--onnxruntime", library.to_str().unwrap()]);
    assert!(found["missing"].is_null(), "{found}");
}

#[test]
fn the_doctor_reports_why_onnxruntime_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, found) = doctor(None, &[]);
    assert!(printed.starts_with("  -         onnxruntime: its library was not found"), "{printed}");
    assert!(found["missing"].is_string() && found["version"].is_null(), "{found}");
    let (printed, _) = doctor(Some(folder.path()), &[]);
    let expected = format!(
        "  -         onnxruntime: SANDMILL_ONNXRUNTIME names {}, a folder without libonnxruntime.so;",
        folder.path().display()
    );
    assert!(printed.starts_with(&expected), "{printed}");
    let text = folder.path().join("libonnxruntime.so");
    std::fs::write(&text, "no library").unwrap();
    let (printed, _) = doctor(Some(&text), &[]);
    assert!(printed.contains("cannot be opened as a library"), "{printed}");
}
