use super::{describe, errors, job, job_with};
use crate::model::{ErrorThreshold, InputKind, LoggingLevel, OutputAction};
use std::time::Duration;

/// A parallel job as in the documentation of SDK version 2, with a component as the script.
pub(super) const JOB: &str = r#"
$schema: https://example.org/parallelJob.schema.json
type: parallel
name: Batch_Prediction 1
display_name: Batch prediction
compute: azureml:cpu-cluster
inputs:
  job_data_path: {type: uri_folder, path: ./data, mode: ro_mount}
  score_model: {type: uri_folder, path: ./weights, mode: download}
  threshold: 0.5
outputs:
  job_output_file: {type: uri_file, mode: rw_mount}
input_data: ${{inputs.job_data_path}}
mini_batch_size: "4"
resources:
  instance_count: 2
  instance_type: Standard_D2
  shm_size: 2g
max_concurrency_per_instance: 2
mini_batch_error_threshold: 5
logging_level: "debug"
retry_settings:
  max_retries: 2
  timeout: 120
environment_variables:
  MODEL: ${{inputs.score_model}}
is_deterministic: false
task:
  type: run_function
  code: ./source
  entry_script: inner.wasm
  environment: azureml:env@latest
  program_arguments: >-
    --model ${{inputs.score_model}}/digits.bin
    --threshold ${{ inputs.threshold }} --label 'a b'
    --error_threshold 7
    --allowed_failed_percent 30
    --task_overhead_timeout 1200
    --resource_monitor_interva 20
  append_row_to: ${{outputs.job_output_file}}
"#;

/// The smallest version 2 job.
pub(super) const LEAST: &str = "type: parallel\ninput_data: ${{inputs.d}}\nmax_concurrency_per_instance: 1\n\
    inputs: {d: {type: uri_folder, path: data}}\ntask: {type: run_function, entry_script: script.wasm}\n";

/// Every setting of a version 2 job is used or reported: rules A10, C1, C2, C5, C6, C7, C9, C10, C11, C15 to
/// C18, C21, C22, C24, C25, C29, E11 and section 1.12 in docs/parallel-run-step.md.
#[test]
fn a_parallel_job_loads() {
    let spec = job(JOB);
    assert_eq!(spec.name, "batch_prediction-1");
    assert_eq!(spec.entry_script.to_str(), Some("/dir/source/inner.wasm"));
    assert_eq!(spec.inputs.len(), 1);
    assert_eq!(spec.inputs[0].paths, ["/dir/data"]);
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 4 });
    assert_eq!(spec.side_inputs[0].guest, "/side_inputs/score_model");
    assert_eq!((spec.process_count, spec.settings.run_max_try), (2, 3));
    assert_eq!(spec.settings.run_invocation_timeout, Duration::from_secs(120));
    assert_eq!(spec.settings.task_overhead_timeout, Duration::from_secs(1200));
    assert_eq!(spec.settings.error_threshold, ErrorThreshold::AtMost(7));
    assert_eq!(spec.settings.allowed_failed_count, ErrorThreshold::AtMost(5));
    assert_eq!(spec.settings.allowed_failed_percent.to_string(), "30");
    assert_eq!(spec.worker.logging_level, LoggingLevel::Debug);
    assert_eq!(spec.worker.output_action, OutputAction::AppendRow);
    assert!(!spec.settings.allow_reuse);
    assert_eq!(
        spec.environment_variables,
        [("MODEL".to_owned(), "/side_inputs/score_model".to_owned())]
    );
    insta::assert_snapshot!(spec.arguments.join("|"), @"--model|/side_inputs/score_model/digits.bin|--threshold|0.5|--label|a b|--error_threshold|7|--allowed_failed_percent|30|--task_overhead_timeout|1200|--resource_monitor_interva|20|--logging_level|DEBUG|--mini_batch_size|4|--allowed_failed_count|5|--run_invocation_timeout|120|--run_max_try|3|--output_action|append_row|--append_row_file_name|parallel_run_step.txt|--process_count_per_node|2");
    insta::assert_snapshot!(describe(&spec), @r#"
    23 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    resources.instance_count: the file asks for 2 nodes; the job runs on this machine only, with max_concurrency_per_instance workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)
    input_data: inputs.job_data_path is cut into mini-batches
    inputs.score_model is read as side_inputs.score_model
    task.code is read as source_directory
    task.environment: ignored, an entry script is a component and contains everything that it needs
    task.program_arguments is read as arguments
    resources.instance_type: ignored, the job runs on this machine
    resources.shm_size: ignored, there are no containers here; limits.memory bounds an entry script
    retry_settings.max_retries 2 is run_max_try 3: the first attempt also counts
    retry_settings.timeout is read as run_invocation_timeout
    name "Batch_Prediction 1" is batch_prediction-1 here
    display_name: ignored, for display in Azure only
    compute: ignored, the job runs on this machine
    max_concurrency_per_instance is read as process_count_per_node
    mini_batch_error_threshold is read as allowed_failed_count
    is_deterministic is read as allow_reuse
    task.program_arguments: --error_threshold sets error_threshold to 7; the entry script gets it too
    task.program_arguments: --allowed_failed_percent sets allowed_failed_percent to 30; the entry script gets it too
    task.program_arguments: --task_overhead_timeout sets task_overhead_timeout to 1200; the entry script gets it too
    arguments: --resource_monitor_interva is read as --resource_monitor_interval
    task.program_arguments: --resource_monitor_interval sets resource_monitor_interval to 20; the entry script gets it too
    task.append_row_to is not in the file: parallel_run_step.txt (as in Azure)
    first_task_creation_timeout is not in the file: 600 seconds (as in Azure)
    progress_update_timeout is not in the file: 4020 seconds, from attempts x (task_overhead_timeout + retry_settings.timeout) + 60 = 3 x (1200 + 120) + 60, and at least 600
    "#);
}

/// C9, C10, C13, 1.12: the defaults of a version 2 job.
#[test]
fn defaults_of_version_2() {
    let spec = job(LEAST);
    assert_eq!(spec.settings.error_threshold, ErrorThreshold::Ignore);
    assert_eq!(spec.settings.allowed_failed_count, ErrorThreshold::Ignore);
    assert_eq!(spec.worker.output_action, OutputAction::SummaryOnly);
    assert_eq!(
        (spec.settings.run_max_try, spec.settings.run_invocation_timeout.as_secs()),
        (3, 60)
    );
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 10 });
    insta::assert_snapshot!(describe(&spec), @"
    11 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    input_data: inputs.d is cut into mini-batches
    task.append_row_to is not set: output_action is summary_only (as in Azure)
    max_concurrency_per_instance is read as process_count_per_node
    mini_batch_size is not in the file: 10 files (as in version 1; Azure's pages say 10 or 1)
    retry_settings.max_retries is not in the file: 2 (as in Azure)
    retry_settings.timeout is not in the file: 60 seconds (as in Azure)
    task_overhead_timeout is not in the file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the file: 600 seconds (as in Azure)
    progress_update_timeout is not in the file: 2040 seconds, from attempts x (task_overhead_timeout + retry_settings.timeout) + 60 = 3 x (600 + 60) + 60, and at least 600
    error_threshold is not in the file: -1 (as in Azure)
    logging_level is not in the file: INFO (as in Azure)
    ");
}

/// C19, C21, C29: of name, compute and task, only task is required. One input is cut into mini-batches.
/// Settings for a container or a machine of Azure are ignored, with the reason.
#[test]
fn optional_and_ignored_keys_of_version_2() {
    let spec = job(LEAST);
    assert_eq!(spec.name, "job", "the file's name");
    insta::assert_snapshot!(errors("type: parallel\ninput_data: ${{inputs.d}}\ninputs: {d: {type: uri_folder, path: data}}\n"), @"job.yaml: task.entry_script: missing; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)");
    insta::assert_snapshot!(errors(&LEAST.replace("${{inputs.d}}", "[\"${{inputs.d}}\"]")), @"job.yaml:2: input_data: found a list; expected a reference to an input, such as ${{inputs.x}}; the inputs are: d");
    for kind in ["function", "model"] {
        job(&LEAST.replace("run_function", kind));
    }
    let spec = job(&format!(
        "{}resources: {{docker_args: --x, shm_size: 2g, locations: [a], max_instance_count: 3, properties: {{a: b}}}}\nidentity: {{type: managed}}\n",
        LEAST.replace("script.wasm}", "script.wasm, model: m}")
    ));
    let reported = describe(&spec);
    let ignored = reported.lines().filter(|line| line.contains("ignored"));
    insta::assert_snapshot!(ignored.collect::<Vec<_>>().join("\n"), @"
    task.model: ignored, a model is a side input here
    resources.docker_args: ignored, there are no containers here; limits bound an entry script
    resources.shm_size: ignored, there are no containers here; limits.memory bounds an entry script
    resources.locations: ignored, the job runs on this machine
    resources.max_instance_count: ignored, the job runs on this machine
    resources.properties: ignored, for Azure's machines only
    identity: ignored, the job runs as you
    ");
}

/// C14, C23: append_row_to and outputs decide where results go.
#[test]
fn outputs_of_version_2() {
    let load = |outputs: &str, to: &str| {
        let text = LEAST.replace("script.wasm}", &format!("script.wasm, append_row_to: \"{to}\", program_arguments: \"--o ${{{{outputs.o}}}}\"}}"));
        job(&format!("{text}outputs: {outputs}\n"))
    };
    let spec = load("{o: {type: uri_file, path: out/rows.csv}}", "${{outputs.o}}");
    assert_eq!(spec.append_row_file_name, "rows.csv");
    assert_eq!(spec.output.as_deref().and_then(|path| path.to_str()), Some("/dir/out"));
    assert_eq!(spec.arguments[1], "/output/rows.csv");
    let spec = load("{o: {type: uri_folder, path: out}, p: {type: uri_folder}}", "rows.txt");
    assert_eq!(spec.append_row_file_name, "rows.txt");
    assert_eq!(spec.output.as_deref().and_then(|path| path.to_str()), Some("/dir/out"));
    assert_eq!(spec.arguments[1], "/output");
    let spec =
        load("{o: {type: uri_file, path: \"azureml://datastores/a/paths/b\"}}", "${{outputs.o}}");
    assert_eq!(
        (spec.output.clone(), spec.append_row_file_name.as_str()),
        (None, "parallel_run_step.txt")
    );
    insta::assert_snapshot!(describe(&spec).lines().filter(|line| line.contains("output")).collect::<Vec<_>>().join("\n"), @"outputs.o: its path is in Azure; results go to the job's own output folder");
    let text = LEAST.replace("script.wasm}", "script.wasm, append_row_to: \"${{outputs.x}}\"}");
    insta::assert_snapshot!(errors(&text), @r#"job.yaml:5: task.append_row_to: found the output "x", which is not in outputs"#);
}

/// C1, C21, C22: data in Azure and a missing Python script are refused, with advice.
#[test]
fn data_in_azure_must_be_named_on_this_machine() {
    let text = JOB
        .replace("./data", "azureml:images@latest")
        .replace("./weights", "azureml://datastores/models/paths/x")
        .replace("inner.wasm", "score.py");
    insta::assert_snapshot!(errors(&text), @r#"
    job.yaml:8: inputs.job_data_path.path: found "azureml:images@latest", which is in Azure; fetch it first, and name the files here by --set inputs.job_data_path.path=...; or register it here as images@latest (sandmill dataset register)
    job.yaml:9: inputs.score_model.path: found "azureml://datastores/models/paths/x", which is not on this machine; fetch it first, and name it here by --set inputs.score_model.path=...
    job.yaml:31: task.entry_script: there is no [dir]/source/score.py; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    "#);
    let set = [
        ("inputs.job_data_path.path", "data"),
        ("side_inputs.score_model.path", "weights"),
        ("entry_script", "inner.wasm"),
    ];
    assert_eq!(job_with(&text, &set).inputs[0].paths, ["/dir/data"]);
    let set =
        [("inputs.job_data_path.path", "data"), ("inputs.score_model.path", "weights2"), set[2]];
    assert_eq!(job_with(&text, &set).side_inputs[0].host.to_str(), Some("/dir/weights2"));
}

/// C7, C8, C13, C15, C17, C24, C29: values that do not fit.
#[test]
fn version_2_values_that_do_not_fit() {
    let text = JOB
        .replace("run_function", "command")
        .replace("mini_batch_size: \"4\"", "mini_batch_size: 10kbmb\ninstance_count: 2")
        .replace("max_retries: 2", "max_retries: -1")
        .replace("timeout: 120", "timeout: 0\n  wait: 5")
        .replace("\"debug\"", "loud")
        .replace("--error_threshold 7", "--run_max_try 7")
        .replace("  environment: azureml", "  colour: azureml")
        .replace("shm_size", "shm");
    insta::assert_snapshot!(errors(&text), @r#"
    job.yaml:14: mini_batch_size: found "10kbmb"; expected a whole number of files of at least 1 (e.g. 10)
    job.yaml:15: instance_count: given together with resources; write only resources.instance_count
    job.yaml:19: resources.shm: unknown key; the known keys are instance_count, instance_type, docker_args, shm_size, locations, max_instance_count, properties
    job.yaml:22: logging_level: found "loud"; expected WARNING, INFO or DEBUG
    job.yaml:24: retry_settings.max_retries: found -1; expected a whole number of retries from 0 up, after the first attempt
    job.yaml:25: retry_settings.timeout: found 0; expected seconds, more than 0 and at most 259200 (e.g. 60)
    job.yaml:26: retry_settings.wait: unknown key; the known keys are max_retries, timeout
    job.yaml:31: task.type: found "command"; expected run_function, function or model
    job.yaml:34: task.colour: unknown key; the known keys are type, code, entry_script, program_arguments, append_row_to, environment, model
    job.yaml:35: task.program_arguments[6]: --run_max_try is a setting of the job: write the key retry_settings.max_retries in the job file instead
    "#);
    insta::assert_snapshot!(errors(&LEAST.replace("${{inputs.d}}", "data")), @r#"job.yaml:2: input_data: found "data"; expected a reference to an input, such as ${{inputs.x}}; the inputs are: d"#);
    insta::assert_snapshot!(errors("type: parallel\ntask: 5\n"), @"
    job.yaml: input_data: missing; name the one input that is cut into mini-batches, as in ${{inputs.x}}
    job.yaml: task.entry_script: missing; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml:2: task: found 5; expected a map
    ");
    insta::assert_snapshot!(errors(&LEAST.replace("script.wasm}", "script.wasm, program_arguments: \"--a 'b\"}")), @"job.yaml:5: task.program_arguments: a ' is not closed");
    insta::assert_snapshot!(errors(&format!("{LEAST}process_count_per_node: 3\n")), @"job.yaml:6: process_count_per_node: also given by Azure's name for it; remove one of them");
    insta::assert_snapshot!(errors(&format!("{LEAST}component: file:./x.yml\n")), @"job.yaml:6: component: [dir]/x.yml: there is no such file");
}

/// A10, C24: in version 2, a threshold may be an option or a key, but not both.
#[test]
fn thresholds_are_given_once() {
    insta::assert_snapshot!(errors(&format!("{JOB}error_threshold: 3\n")), @"job.yaml:33: task.program_arguments[6]: given twice: --error_threshold here, and the key error_threshold in the job file; remove one of them");
    insta::assert_snapshot!(errors(&JOB.replace("--error_threshold 7", "--allowed_failed_count 7")), @"job.yaml:33: task.program_arguments[6]: given twice: --allowed_failed_count here, and the key mini_batch_error_threshold in the job file; remove one of them");
}

/// C8: keys as a list or as JSON text. A size beside them is ignored (1.12).
#[test]
fn version_2_partition_keys() {
    let table = LEAST.replace("path: data}", "path: data, format: csv}");
    for keys in ["[store, brand]", "'[\"store\", \"brand\"]'"] {
        assert_eq!(
            job(&format!("{table}partition_keys: {keys}\n")).partition_keys,
            ["store", "brand"]
        );
    }
    insta::assert_snapshot!(errors(&format!("{table}partition_keys: '[store'\n")), @r#"job.yaml:6: partition_keys: found "[store"; expected a list of texts, or the list as JSON text, as in '["store", "brand"]'"#);
    // 1.12: if there are both a size and keys, Azure uses the keys.
    let spec = job(&format!("{table}partition_keys: [a]\nmini_batch_size: 1kb\n"));
    assert_eq!(spec.partition_keys, ["a"]);
    insta::assert_snapshot!(spec.notices[1], @"mini_batch_size (1kb) is ignored, as in Azure: partition_keys make the mini-batches");
}

/// C26: a job with rank_mini_batch_count needs no data.
#[test]
fn void_jobs_of_version_2() {
    let text = LEAST
        .replace("input_data: ${{inputs.d}}\n", "")
        .replace("script.wasm}", "script.wasm, program_arguments: --rank_mini_batch_count 3}");
    assert_eq!(job(&text).input_kind, InputKind::Void { count: 3 });
}

/// Our own keys, and misspelt ones, are treated in a version 2 file as in our own files.
#[test]
fn own_keys_in_a_version_2_file() {
    assert!(job(&format!("{LEAST}strict_cardinality: true\n")).worker.strict_cardinality);
    insta::assert_snapshot!(errors(&format!("{LEAST}mini_bach_size: 5\n")), @"job.yaml:6: mini_bach_size: unknown key; did you mean mini_batch_size?");
}
