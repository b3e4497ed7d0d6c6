//! Models by way of the SDK for Rust.

use insta::assert_snapshot;
use sandmill_tests::{Job, guest};

/// Protobuf: a field that holds bytes.
fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let length = u8::try_from(content.len()).expect("a short field");
    assert!(length < 128, "a length of one byte");
    [&[number << 3 | 2, length], content].concat()
}

/// Protobuf: a field that holds a small number.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

/// An ONNX model that gives `x`, of these elements and the shape [N, 2], back as `y`.
fn identity(element: u8) -> Vec<u8> {
    let shape = [field(1, field(2, "N")), field(1, number(1, 2))].concat();
    let ty = field(1, [number(1, element), field(2, shape)].concat());
    let port = |name: &str| [field(1, name), field(2, &ty)].concat();
    let node = [field(1, "x"), field(2, "y"), field(4, "Identity")].concat();
    let graph = [field(1, node), field(2, "same"), field(11, port("x")), field(12, port("y"))];
    [number(1, 8), field(7, graph.concat()), field(8, number(2, 17))].concat()
}

#[test]
fn the_sdk_has_models_computed() {
    // The numbers that ONNX has for the types.
    let types = [("f32", 1), ("f64", 11), ("f16", 10), ("u8", 2), ("i32", 6), ("i64", 7)];
    let mut yaml = "rank_mini_batch_count: 1\nmodels:\n".to_owned();
    let mut job = Job::new(&guest("sdk_models"));
    for (name, element) in types {
        yaml += &format!("  {name}: {{path: {name}.onnx, backend: tract, device: cpu}}\n");
        job = job.file(&format!("{name}.onnx"), identity(element));
    }
    let ran = job.yaml(&yaml).run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"");
}

/// The contract grew, and components that compute nothing import what they did.
#[test]
fn models_are_imported_only_to_be_used() {
    let inspect = |name: &str| {
        let component = guest(name).display().to_string();
        Job::empty().command(&["inspect", &component]).stdout
    };
    for name in ["echo_files", "sdk_answers"] {
        let said = inspect(name);
        assert!(said.contains("sandmill:entry/host@0.1.0"), "{said}");
        assert!(!said.contains("wasi:nn/") && !said.contains("sandmill:entry/models"), "{said}");
    }
    let said = inspect("sdk_models");
    assert!(said.contains("wasi:nn/graph@") && said.contains("sandmill:entry/models@"), "{said}");
}
