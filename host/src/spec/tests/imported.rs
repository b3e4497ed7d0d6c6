use super::{errors, errors_with, job, job_with};
use crate::model::{ErrorThreshold, InputKind, LoggingLevel, OutputAction};

/// As version 1 of the Azure SDK saves a configuration, with an environment cut short.
const SAVED: &str = r#"
parallel_run_config:
  append_row_file_name: predictions.txt
  compute_target: cpu-cluster
  description: null
  entry_script: digit_identification.py
  environment:
    databricks:
      eggLibraries: []
      mavenLibraries: []
    docker:
      arguments: []
      baseImage: mcr.microsoft.com/azureml/base:intelmpi2018.3-ubuntu16.04
      enabled: true
      shmSize: null
    environmentVariables:
      EXAMPLE_ENV_VAR: EXAMPLE_VALUE
    name: batch_environment
    python:
      condaDependencies:
        channels:
        - conda-forge
        dependencies:
        - python=3.6.2
        - pip:
          - tensorflow==1.15.2
          - azureml-core
        name: azureml_environment
      interpreterPath: python
      userManagedDependencies: false
    version: null
  environment_variables: {}
  error_threshold: 10
  input_format: null
  logging_level: DEBUG
  mini_batch_size: '5'
  node_count: 4
  output_action: append_row
  partition_keys: null
  process_count_per_node: 2
  run_invocation_timeout: 600
  run_max_try: 3
  source_directory: source
"#;

#[test]
fn a_saved_file_loads_unchanged() {
    let spec = job_with(
        SAVED,
        &[("inputs.images.path", "data"), ("entry_script", "inner.wasm"), ("name", "digits")],
    );
    assert_eq!(spec.name, "digits");
    assert_eq!(spec.entry_script.to_str(), Some("/dir/source/inner.wasm"));
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 5 });
    assert_eq!(spec.process_count, 2);
    assert_eq!(spec.error_threshold, ErrorThreshold::AtMost(10));
    assert_eq!(spec.logging_level, LoggingLevel::Debug);
    assert_eq!(spec.run_invocation_timeout.as_secs(), 600);
    assert_eq!(spec.output_action, OutputAction::AppendRow);
    assert_eq!(spec.append_row_file_name, "predictions.txt");
    insta::assert_snapshot!(spec.notices.join("\n"), @r"
compute_target: ignored, the job runs on this machine
environment: ignored, an entry script is a component and brings all that it needs
node_count: the file asks for 4 nodes; the job runs on this one
");
}

#[test]
fn what_a_saved_file_cannot_say_stands_beside_it() {
    let spec = job(&format!(
        "{}name: beside\ninputs: {{rows: {{path: data, format: csv}}}}\narguments: [--x, 1]\noutput: out\n",
        SAVED.replace("digit_identification.py", "inner.wasm").replace("'5'", "1024KB"),
    ));
    assert_eq!(spec.name, "beside");
    assert_eq!(spec.arguments, ["--x", "1"]);
    assert!(matches!(spec.input_kind, InputKind::Csv { mini_batch_bytes: 1_048_576, .. }));
}

#[test]
fn defaults_that_were_taken_are_said() {
    let text = "parallel_run_config:\n  entry_script: script.wasm\n  process_count_per_node: null\n  \
                node_count: 1\n  telemetry: true\ninputs: {a: data}\n";
    let spec = job(text);
    let cores = format!("{}, the number", spec.process_count);
    insta::assert_snapshot!(spec.notices.join("\n").replace(&cores, "[n], the number"), @r"
telemetry: ignored, Sandmill knows no such setting
output_action is not in the saved file: append_row (Azure has no default for it)
append_row_file_name is not in the saved file: parallel_run_step.txt (as in Azure)
mini_batch_size is not in the saved file: 10 files (as in Azure)
process_count_per_node is not in the saved file: [n], the number of cores (as in Azure)
error_threshold is not in the saved file: 0 (Azure has no default for it, and no failure is ignored unasked)
run_max_try is not in the saved file: 3 (as in Azure)
run_invocation_timeout is not in the saved file: 60 seconds (as in Azure)
logging_level is not in the saved file: INFO (as in Azure)
");
}

#[test]
fn errors_of_saved_files() {
    insta::assert_snapshot!(errors(SAVED), @r#"
job.yaml: inputs: missing; a saved parallel_run_config holds none: name at least one beside it (inputs: {images: data}), or by --set inputs.images.path=data
job.yaml:6: entry_script: found "digit_identification.py", a Python script; entry scripts are WebAssembly components: make one of it with componentize-py, or write one in Rust, starting with `sandmill new`, and name it by --set entry_script=...
"#);
    insta::assert_snapshot!(errors(&format!("{SAVED}  partition_kyes: [a]\n  allowed_failed_count: 5\n  error_treshold: 5\nnode_count: 2\n")), @r#"
job.yaml: inputs: missing; a saved parallel_run_config holds none: name at least one beside it (inputs: {images: data}), or by --set inputs.images.path=data
job.yaml:6: entry_script: found "digit_identification.py", a Python script; entry scripts are WebAssembly components: make one of it with componentize-py, or write one in Rust, starting with `sandmill new`, and name it by --set entry_script=...
job.yaml:44: partition_kyes: unknown key; did you mean partition_keys?
job.yaml:45: allowed_failed_count: not supported yet; remove the key, or wait for a later version of Sandmill
job.yaml:46: error_treshold: unknown key; did you mean error_threshold?
job.yaml:47: parallel_run_config.node_count: given below parallel_run_config and beside it; remove one of them
job.yaml:47: node_count: found 2; only 1 is supported for now: the job runs on this machine, with process_count_per_node workers
"#);
    insta::assert_snapshot!(errors("parallel_run_config: other.yml\n"), @r#"job.yaml:1: parallel_run_config: found "other.yml"; expected the settings that ParallelRunConfig saves, as a map"#);
    insta::assert_snapshot!(errors_with(
        &SAVED.replace("partition_keys: null", "partition_keys: [store]"),
        &[("inputs.a", "data"), ("entry_script", "inner.wasm"), ("node_count", "3")],
    ), @r"
job.yaml:39: partition_keys: not supported yet; remove the key, or wait for a later version of Sandmill
--set node_count: found 3; only 1 is supported for now: the job runs on this machine, with process_count_per_node workers
");
}

#[test]
fn files_of_version_2_get_one_error() {
    for text in [
        "$schema: x\ntype: parallel\ninputs: {a: {type: uri_folder, path: data}}\ntask: {code: ./src}\n",
        "name: x\nresources: {instance_count: 2}\ntask:\n  type: run_function\n",
    ] {
        let errors = super::errors(text);
        assert_eq!(errors.trim().lines().count(), 1, "{errors}");
        assert!(errors.contains("version 2") && errors.contains("entry_script"), "{errors}");
    }
    let wrong = [("parallel_run_config.mini_batch_size", "1")];
    insta::assert_snapshot!(
        super::errors_with("parallel_run_config: {entry_script: script.wasm}\ninputs: {a: data}\n", &wrong),
        @"--set parallel_run_config.mini_batch_size: settings of a saved file have their own names; write mini_batch_size"
    );
}
