//! Models through the Rust SDK.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest, onnx_model_of};

#[test]
fn models_compute_through_the_sdk() {
    // The numbers of the types in onnx.proto.
    let types = [("f32", 1), ("f64", 11), ("f16", 10), ("u8", 2), ("i32", 6), ("i64", 7)];
    let mut yaml = "rank_mini_batch_count: 1\nmodels:\n".to_owned();
    let mut job = TestJob::new(&guest("sdk_models"));
    for (name, element) in types {
        yaml += &format!("  {name}: {{path: {name}.onnx, backend: tract, device: cpu}}\n");
        let identity = onnx_model_of(element, ["N", "2"], &[("Identity", &["x"], "y")]);
        job = job.file(&format!("{name}.onnx"), identity);
    }
    let ran = job.yaml(&yaml).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    f16 on cpu: x f16 [N, 2] -> y f16 [N, 2]
    f32 on cpu: x f32 [N, 2] -> y f32 [N, 2]
    f64 on cpu: x f64 [N, 2] -> y f64 [N, 2]
    i32 on cpu: x i32 [N, 2] -> y i32 [N, 2]
    i64 on cpu: x i64 [N, 2] -> y i64 [N, 2]
    u8 on cpu: x u8 [N, 2] -> y u8 [N, 2]
    f16: 6 values, the same
    f32: 6 values, the same
    f64: 6 values, the same
    i32: 6 values, the same
    i64: 6 values, the same
    u8: 6 values, the same
    not-found: there is no model "nothing"; the job's models are "f16", "f32", "f64", "i32", "i64", "u8"
    invalid-argument: input "x": expected f32 [N, 2], got f32 [2, 3]
    invalid-argument: there is no input "z"; the model takes "x" (f32 [N, 2])
    invalid-argument: input "x": expected f32 [N, 2], got i64 [2, 2]
    invalid-argument: there is no output "z"; there is: "y" (f32 [2, 2])
    "#);
}

/// A component that uses no models does not import their interfaces.
#[test]
fn models_are_imported_only_if_used() {
    let inspect = |name: &str| {
        let component = guest(name).display().to_string();
        TestJob::empty().command(&["inspect", &component]).stdout
    };
    for name in ["echo_files", "sdk_answers"] {
        let imports = inspect(name);
        assert!(imports.contains("sandmill:entry/host@0.2.0"), "{imports}");
        assert!(
            !imports.contains("wasi:nn/") && !imports.contains("sandmill:entry/models"),
            "{imports}"
        );
    }
    let imports = inspect("sdk_models");
    assert!(
        imports.contains("wasi:nn/graph@") && imports.contains("sandmill:entry/models@"),
        "{imports}"
    );
}
