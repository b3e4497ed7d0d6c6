use super::{describe, errors, errors_with, job, job_with};
use crate::model::{ErrorThreshold, InputKind, LoggingLevel, OutputAction, SliceSize};

/// A configuration as version 1 of the Azure SDK saves it, with a shortened environment.
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

/// Rules C3, C4 and C28 in docs/parallel-run-step.md: a saved configuration loads unchanged.
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
    assert_eq!(spec.settings.error_threshold, ErrorThreshold::AtMost(10));
    assert_eq!(spec.worker.logging_level, LoggingLevel::Debug);
    assert_eq!(spec.settings.run_invocation_timeout.as_secs(), 600);
    assert_eq!(spec.worker.output_action, OutputAction::AppendRow);
    assert_eq!(spec.append_row_file_name, "predictions.txt");
    insta::assert_snapshot!(describe(&spec), @"
    5 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    node_count: the file asks for 4 nodes; the job runs on this machine only, with process_count_per_node workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)
    compute_target: ignored, the job runs on this machine
    environment: ignored, an entry script is a component and contains everything that it needs
    task_overhead_timeout is not in the saved file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the saved file: 600 seconds (as in Azure)
    progress_update_timeout is not in the saved file: 3660 seconds, from attempts x (task_overhead_timeout + run_invocation_timeout) + 60 = 3 x (600 + 600) + 60, and at least 600
    ");
}

#[test]
fn other_settings_may_be_beside_the_saved_section() {
    let spec = job(&format!(
        "{}name: beside\ninputs: {{rows: {{path: data, format: csv}}}}\narguments: [--x, 1]\noutput: out\n",
        SAVED.replace("digit_identification.py", "inner.wasm").replace("'5'", "1024KB"),
    ));
    assert_eq!(spec.name, "beside");
    insta::assert_snapshot!(spec.arguments.join(" "), @"--x 1 --logging_level DEBUG --mini_batch_size 1048576 --error_threshold 10 --run_invocation_timeout 600 --run_max_try 3 --output_action append_row --append_row_file_name predictions.txt --process_count_per_node 2");
    assert!(matches!(
        spec.input_kind,
        InputKind::Tables { mini_batch_size: SliceSize::Bytes(1_048_576), .. }
    ));
}

/// C28: the defaults for settings that a saved file leaves out are reported.
#[test]
fn used_defaults_are_reported() {
    let text = "parallel_run_config:\n  entry_script: script.wasm\n  process_count_per_node: null\n  \
                node_count: 1\n  telemetry: true\ninputs: {a: data}\n";
    let spec = job(text);
    let cores = format!("{}, the number", spec.process_count);
    insta::assert_snapshot!(describe(&spec).replace(&cores, "[n], the number"), @"
    12 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    telemetry: ignored, Sandmill has no such setting
    output_action is not in the saved file: append_row (Azure has no default for it)
    append_row_file_name is not in the saved file: parallel_run_step.txt (as in Azure)
    mini_batch_size is not in the saved file: 10 files (as in Azure)
    process_count_per_node is not in the saved file: [n], the number of cores (as in Azure)
    run_max_try is not in the saved file: 3 (as in Azure)
    run_invocation_timeout is not in the saved file: 60 seconds (as in Azure)
    task_overhead_timeout is not in the saved file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the saved file: 600 seconds (as in Azure)
    progress_update_timeout is not in the saved file: 2040 seconds, from attempts x (task_overhead_timeout + run_invocation_timeout) + 60 = 3 x (600 + 60) + 60, and at least 600
    error_threshold is not in the saved file: 0 (Azure has no default for it; Sandmill ignores failures only if asked to)
    logging_level is not in the saved file: INFO (as in Azure)
    ");
}

#[test]
fn errors_of_saved_files() {
    insta::assert_snapshot!(errors(SAVED), @"
    job.yaml: inputs: missing; a saved parallel_run_config has no inputs: name at least one beside it (inputs: {images: data}), or by --set inputs.images.path=data
    job.yaml:6: entry_script: there is no [dir]/source/digit_identification.py; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    ");
    insta::assert_snapshot!(errors(&format!("{SAVED}  partition_kyes: [a]\n  allowed_failed_count: x\n  error_treshold: 5\nnode_count: 2\n")), @r#"
    job.yaml: inputs: missing; a saved parallel_run_config has no inputs: name at least one beside it (inputs: {images: data}), or by --set inputs.images.path=data
    job.yaml:6: entry_script: there is no [dir]/source/digit_identification.py; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml:44: partition_kyes: unknown key; did you mean partition_keys?
    job.yaml:45: allowed_failed_count: found "x"; expected a whole number of mini-batches from 0 up, or -1 to ignore all failures
    job.yaml:46: error_treshold: unknown key; did you mean error_threshold?
    job.yaml:47: parallel_run_config.node_count: given both in and beside parallel_run_config; remove one of them
    job.yaml:47: node_count: found 2; without a broker, a job runs on this machine only: leave node_count out, or connect machines by a broker (--broker URL; see docs/nodes.md)
    "#);
    insta::assert_snapshot!(errors("parallel_run_config: other.yml\n"), @r#"job.yaml:1: parallel_run_config: found "other.yml"; expected the settings that ParallelRunConfig saves, as a map"#);
    insta::assert_snapshot!(errors_with(
        &SAVED.replace("partition_keys: null", "partition_keys: [store]"),
        &[("inputs.a", "data"), ("entry_script", "inner.wasm"), ("node_count", "3")],
    ), @r#"
    job.yaml:39: partition_keys: found together with mini_batch_size (5); mini-batches are made by keys or by size: choose one, and remove the other
    --set inputs.a: input a has no partition_format, which names the keys in its files' paths: add one (e.g. partition_format: "{store}/{file}"), or format: csv, if the keys are columns
    --set node_count: found 3; without a broker, a job runs on this machine only: leave node_count out, or connect machines by a broker (--broker URL; see docs/nodes.md)
    "#);
}

#[test]
fn settings_of_a_saved_file_have_their_own_names() {
    let wrong = [("parallel_run_config.mini_batch_size", "1")];
    insta::assert_snapshot!(
        super::errors_with("parallel_run_config: {entry_script: script.wasm}\ninputs: {a: data}\n", &wrong),
        @"--set parallel_run_config.mini_batch_size: leave out parallel_run_config: write mini_batch_size"
    );
}

/// C10, C11, C28, C31: a saved file may have settings of newer SDKs, and names of the preview.
#[test]
fn saved_files_have_thresholds_and_preview_names() {
    let spec = job_with(
        &format!(
            "{SAVED}  allowed_failed_count: 5\n  allowed_failed_percent: 2.5\n  models: []\n  \
             tags: {{a: b}}\n  properties: {{}}\n  add_parallel_run_step_dependencies: true\n"
        )
        .replace("input_format: null", "input_format: mime"),
        &[("inputs.images.path", "data"), ("entry_script", "inner.wasm")],
    );
    assert_eq!(spec.settings.allowed_failed_count, ErrorThreshold::AtMost(5));
    assert_eq!(spec.settings.allowed_failed_percent.to_string(), "2.5");
    insta::assert_snapshot!(spec.arguments.join(" "), @"--logging_level DEBUG --mini_batch_size 5 --error_threshold 10 --allowed_failed_count 5 --allowed_failed_percent 2.5 --run_invocation_timeout 600 --run_max_try 3 --output_action append_row --append_row_file_name predictions.txt --process_count_per_node 2");
    insta::assert_snapshot!(describe(&spec), @"
    10 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    node_count: the file asks for 4 nodes; the job runs on this machine only, with process_count_per_node workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)
    compute_target: ignored, the job runs on this machine
    environment: ignored, an entry script is a component and contains everything that it needs
    input_format: ignored, deprecated in Azure: each input has its own format
    models: ignored, deprecated in Azure; to use models, write the key `models` beside the section
    tags: ignored, for display in Azure only
    properties: ignored, for display in Azure only
    add_parallel_run_step_dependencies: ignored, an entry script contains everything that it needs
    task_overhead_timeout is not in the saved file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the saved file: 600 seconds (as in Azure)
    progress_update_timeout is not in the saved file: 3660 seconds, from attempts x (task_overhead_timeout + run_invocation_timeout) + 60 = 3 x (600 + 600) + 60, and at least 600
    ");
}

/// C8: partition keys of a saved file. Keys and a size are an error, as in version 1.
#[test]
fn saved_partition_keys() {
    let saved = SAVED.replace("partition_keys: null", "partition_keys: [store, brand]");
    let set = [("inputs.rows", "{path: data, format: csv}"), ("entry_script", "inner.wasm")];
    insta::assert_snapshot!(errors_with(&saved, &set), @"job.yaml:39: partition_keys: found together with mini_batch_size (5); mini-batches are made by keys or by size: choose one, and remove the other");
    let spec = job_with(&saved.replace("mini_batch_size: '5'", "mini_batch_size: null"), &set);
    assert_eq!(spec.partition_keys, ["store", "brand"]);
    assert!(
        spec.arguments.windows(2).any(|two| two == ["--partition_keys", r#"["store","brand"]"#])
    );
    assert!(!spec.arguments.contains(&String::from("--mini_batch_size")));
}

/// E11: for Azure's files, ParallelRunStep's own options are appended to the arguments, each option once.
#[test]
fn own_options_are_passed_where_azure_passes_them() {
    let text = "parallel_run_config: {entry_script: script.wasm, process_count_per_node: 2}\n\
                inputs: {a: data}\narguments: [--x]\n";
    insta::assert_snapshot!(job(text).arguments.join(" "), @"--x --logging_level INFO --mini_batch_size 10 --error_threshold 0 --run_invocation_timeout 60 --run_max_try 3 --output_action append_row --append_row_file_name parallel_run_step.txt --process_count_per_node 2");
    assert_eq!(job_with(text, &[("pass_settings", "false")]).arguments, ["--x"]);
    let own =
        job_with(super::LEAST, &[("pass_settings", "true"), ("output_action", "summary_only")]);
    assert!(own.arguments.contains(&String::from("--run_max_try")));
    assert!(!own.arguments.contains(&String::from("--append_row_file_name")));
}
