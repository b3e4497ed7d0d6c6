//! Models, and what inference may use.

use super::{Fixture, LEAST, errors, job, job_with};
use crate::model::{Backend, ByteSize, DeviceChoice, InferenceSettings};
use crate::spec::ModelSpec;
use std::fs;

fn plain(name: &str) -> ModelSpec {
    ModelSpec {
        name: name.into(),
        file: "/dir/digits.onnx".into(),
        folder: None,
        bytes: 0,
        digest: None,
        backend: Backend::Auto,
        device: DeviceChoice::Auto,
        fallback: false,
    }
}

#[test]
fn models_in_short_and_in_full() {
    let digest = "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08";
    let spec = job(&format!(
        "{LEAST}models:\n  digits: digits.onnx\n  Res.Net_18-x:\n    path: ./digits.onnx\n    \
         digest: sha256:{digest}\n    backend: Tract\n    device: gpu\n    fallback: CPU\n\
         inference: {{allow_guest_models: true, threads: 3, gpu_memory: 2 GB}}\n\
         arguments: [--a, '${{{{models.digits}}}}/digits.onnx', '${{{{models.Res.Net_18-x}}}}']\n\
         environment_variables: {{M: '${{{{ models.digits }}}}'}}\n"
    ));
    let full = ModelSpec {
        digest: Some(digest.to_lowercase()),
        backend: Backend::Tract,
        device: DeviceChoice::Gpu,
        fallback: true,
        ..plain("Res.Net_18-x")
    };
    assert_eq!(spec.models, [plain("digits"), full]);
    assert_eq!(
        spec.inference,
        InferenceSettings {
            allow_guest_models: true,
            threads: Some(3),
            gpu_memory: Some(ByteSize(2 << 30)),
            ..InferenceSettings::default()
        }
    );
    assert_eq!(spec.arguments, ["--a", "/models/digits/digits.onnx", "/models/Res.Net_18-x"]);
    assert_eq!(spec.environment_variables, [("M".into(), "/models/digits".into())]);
    let list = job(&format!("{LEAST}models: [{{name: digits, path: digits.onnx}}]\n"));
    assert_eq!(list.models, [plain("digits")]);
    assert_eq!(list.inference, InferenceSettings::default());
}

#[test]
fn models_are_set_on_the_command_line() {
    let text = format!("{LEAST}models: {{a.b: nowhere.onnx, c: nowhere.onnx}}\n");
    let set = [
        ("models.a.b.path", "digits.onnx"),
        ("models.a.b.device", "cpu"),
        ("models.c", ""),
        ("models.d", "digits.onnx"),
        ("inference.threads", "2"),
    ];
    let spec = job_with(&text, &set);
    assert_eq!(spec.models, [ModelSpec { device: DeviceChoice::Cpu, ..plain("a.b") }, plain("d")]);
    assert_eq!(spec.inference.threads, Some(2));
}

#[test]
fn all_that_is_wrong_with_models_is_told_at_once() {
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}models:
  ../etc: digits.onnx
  .hidden: digits.onnx
  nowhere: nowhere.onnx
  empty: {{path: empty}}
  no_path: {{version: 1}}
  remote: azureml:digits:1
  versioned: {{path: digits.onnx, version: 2}}
  many:
    path: digits.onnx
    pth: x
    version: 0
    digest: abc
    backend: openvino
    device: cuda
    fallback: gpu
side_inputs:
  a: {{path: weights, mount_path: /models}}
  b: {{path: weights, mount_path: /models/many/x}}
inference: {{threads: 0, gpu_memory: 5, memory: 1 GB}}
arguments: [--m, '${{{{models.other}}}}']
"
    )), @"");
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}models: [{{name: a, path: digits.onnx}}, {{name: a, path: ''}}, digits]\n"
    )), @"");
    insta::assert_snapshot!(errors(&format!("{LEAST}models: digits.onnx\ninference: 5\n")), @"");
    insta::assert_snapshot!(errors(&format!("{LEAST}model: {{digits: digits.onnx}}\n")), @"");
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}models: {{digits: digits.onnx}}\narguments: [--m, '${{{{models.other}}}}']\n"
    )), @"");
}

/// Side inputs may lie below /models, as they always could.
#[test]
fn models_and_side_inputs_lie_side_by_side() {
    let spec = job(&format!(
        "{LEAST}models: {{digits: digits.onnx}}\nside_inputs: {{a: {{path: weights, mount_path: \
         /models/digits2}}}}\n"
    ));
    assert_eq!(spec.side_inputs[0].guest, "/models/digits2");
}

#[test]
fn a_model_that_no_worker_may_load_is_refused() {
    let fixture = Fixture::new();
    let file = fs::File::create(fixture.0.path().join("digits.onnx")).expect("a file");
    file.set_len((3 << 20) + 1).expect("a longer file");
    let load = |limit: &str| {
        let text = format!("{LEAST}models: {{digits: digits.onnx}}\nlimits: {{models: {limit}}}\n");
        fixture.load(text, &[])
    };
    insta::assert_snapshot!(load("3 MB").unwrap_err(), @"");
    load("4 MB").unwrap();
}

#[test]
fn a_fallback_without_a_gpu_is_told() {
    let spec = job(&format!("{LEAST}models: {{digits: {{path: digits.onnx, fallback: cpu}}}}\n"));
    assert!(spec.notices.iter().any(|notice| notice.contains("has no effect")), "{spec:?}");
}
