//! Tests of models and of the settings of inference.

use super::{LEAST, SpecFixture, errors, job, job_with};
use crate::ModelSpec;
use crate::model::{Backend, ByteSize, DeviceChoice, InferenceSettings};
use std::fs;

fn plain(name: &str) -> ModelSpec {
    ModelSpec {
        name: name.into(),
        file: "/dir/digits.onnx".into(),
        bytes: 0,
        ..ModelSpec::sample()
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
        digest_at: spec.models[1].digest_at.clone(),
        backend: Backend::Tract,
        device: DeviceChoice::Gpu,
        fallback: true,
        ..plain("Res.Net_18-x")
    };
    assert!(full.digest_at.as_ref().is_some_and(|at| at.ends_with("/job.yaml:7")), "{full:?}");
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
fn all_errors_of_models_are_reported_at_once() {
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
    )), @r#"
    job.yaml:4: models.../etc: found the name "../etc"; expected 1 to 64 letters of a-z and A-Z, digits, _, - and ., starting with a letter or a digit (e.g. digits)
    job.yaml:5: models..hidden: found the name ".hidden"; expected 1 to 64 letters of a-z and A-Z, digits, _, - and ., starting with a letter or a digit (e.g. digits)
    job.yaml:6: models.nowhere.path: there is no [dir]/nowhere.onnx; name an ONNX file, or a folder with one
    job.yaml:7: models.empty.path: [dir]/empty holds neither an ONNX file (.onnx) nor a subfolder for a version, such as 1 or 2; name an ONNX file, or a folder with one; for models of other kinds, such as pickles, name the file, or name the folder under side_inputs
    job.yaml:8: models.no_path: has no path; set path to an ONNX file or a folder with one, or model to a registered name
    job.yaml:9: models.remote.path: found "azureml:digits:1", which is not on this machine; fetch it first, and name it here by --set models.remote.path=...; or register it here as digits@1 (sandmill model register)
    job.yaml:10: models.versioned.version: [dir]/digits.onnx is not a folder with a subfolder for each version; remove the key `version`
    job.yaml:13: models.many.pth: unknown key; did you mean path?
    job.yaml:14: models.many.version: found 0; expected a whole number of at least 1
    job.yaml:15: models.many.digest: found "abc"; expected sha256: and 64 hexadecimal digits
    job.yaml:16: models.many.backend: found "openvino"; expected auto, tract or onnxruntime
    job.yaml:17: models.many.device: found "cuda"; expected auto, cpu or gpu
    job.yaml:18: models.many.fallback: found "gpu"; expected cpu
    job.yaml:20: side_inputs.a.mount_path: /models and /models/nowhere, where model nowhere is shown, overlap; choose another path
    job.yaml:21: side_inputs.b.mount_path: /models/many/x and /models of side input a overlap; choose another path
    job.yaml:21: side_inputs.b.mount_path: /models/many/x and /models/many, where model many is shown, overlap; choose another path
    job.yaml:22: inference.threads: found 0; expected a whole number of threads from 1 to 64
    job.yaml:22: inference.gpu_memory: found 5; expected a size of at least 1 MB (e.g. 4 GB)
    job.yaml:22: inference.memory: unknown key; the known keys are allow_guest_models, threads, gpu_memory
    "#);
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}models: [{{name: a, path: digits.onnx}}, {{name: a, path: ''}}, digits]\n"
    )), @r#"
    job.yaml:3: models[2]: found "digits"; expected a map with name and path
    job.yaml:3: models[1].name: found "a" a second time; names must differ
    job.yaml:3: models[1].path: found an empty text; name an ONNX file, or a folder with one
    "#);
    insta::assert_snapshot!(errors(&format!("{LEAST}models: digits.onnx\ninference: 5\n")), @r#"
    job.yaml:3: models: found "digits.onnx"; expected a map of names to paths (e.g. digits: models/digits.onnx)
    job.yaml:4: inference: found 5; expected a map with allow_guest_models, threads or gpu_memory
    "#);
    insta::assert_snapshot!(errors(&format!("{LEAST}model: {{digits: digits.onnx}}\n")), @"job.yaml:3: model: unknown key; use models");
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}models: {{digits: digits.onnx}}\narguments: [--m, '${{{{models.other}}}}']\n"
    )), @"job.yaml:4: arguments[1]: found the unknown reference ${{models.other}}; the known references are ${{inputs.images}}, ${{models.digits}}, ${{output}}");
}

/// Side inputs may be below /models, as in earlier versions.
#[test]
fn models_and_side_inputs_may_be_siblings() {
    let spec = job(&format!(
        "{LEAST}models: {{digits: digits.onnx}}\nside_inputs: {{a: {{path: weights, mount_path: \
         /models/digits2}}}}\n"
    ));
    assert_eq!(spec.side_inputs[0].guest, "/models/digits2");
}

#[test]
fn a_model_that_no_worker_may_load_is_refused() {
    let fixture = SpecFixture::new();
    let file = fs::File::create(fixture.0.path().join("digits.onnx")).expect("a file");
    file.set_len((3 << 20) + 1).expect("a longer file");
    let load = |limit: &str| {
        let text = format!("{LEAST}models: {{digits: digits.onnx}}\nlimits: {{models: {limit}}}\n");
        fixture.load(text, &[])
    };
    insta::assert_snapshot!(load("3 MB").unwrap_err(), @"job.yaml:3: models.digits.path: [dir]/digits.onnx has 3145729 bytes, more than limits.models (3 MB) lets a worker load; write limits.models: 4 MB, or more");
    load("4 MB").unwrap();
}

#[test]
fn a_useless_fallback_is_reported() {
    let spec = job(&format!("{LEAST}models: {{digits: {{path: digits.onnx, fallback: cpu}}}}\n"));
    assert!(spec.notices.iter().any(|line| line.contains("has no effect")), "{spec:?}");
}

/// In Azure's files, `models` is our key. Only in the section `parallel_run_config` does it name models in
/// Azure's registry.
#[test]
fn azure_files_may_have_our_key_models() {
    let ours = "models: {digits: digits.onnx}\n";
    let parallel = "type: parallel\ninputs: {images: {type: uri_folder, path: data}}\n\
                    input_data: ${{inputs.images}}\ntask: {type: run_function, entry_script: \
                    script.wasm, program_arguments: '--m ${{models.digits}}'}\n";
    let spec = job(&format!("{parallel}{ours}"));
    assert_eq!(spec.models, [plain("digits")]);
    assert_eq!(spec.arguments[..2], ["--m", "/models/digits"]);
    let saved = "parallel_run_config:\n  entry_script: script.wasm\n  error_threshold: 1\n  \
                 output_action: append_row\n  models: [registered]\ninputs: {images: data}\n";
    let spec = job(&format!("{saved}{ours}"));
    assert_eq!(spec.models, [plain("digits")]);
    assert!(spec.conversions.iter().any(|line| line.starts_with("models: ignored")), "{spec:?}");
}
