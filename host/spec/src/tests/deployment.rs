use super::{SpecFixture, describe, errors, errors_with, job, job_with};
use crate::model::{ErrorThreshold, InputKind, OutputAction};
use std::fs;
use std::time::Duration;

/// A deployment to a batch endpoint as in Azure's documentation, with a component as the script.
const DEPLOYMENT: &str = r"
$schema: https://example.org/modelBatchDeployment.schema.json
endpoint_name: heart-classifier-batch
name: classifier-custom
description: A classifier
type: model
model: {name: heart, path: weights}
environment: {name: env, conda_file: environment/conda.yaml}
code_configuration:
  code: source
  scoring_script: inner.wasm
compute: azureml:batch-cluster
resources:
  instance_count: 2
settings:
  max_concurrency_per_instance: 3
  mini_batch_size: 2
  output_action: append_row
  output_file_name: rows.csv
  retry_settings:
    max_retries: 1
    timeout: 300
  error_threshold: 7
  logging_level: debug
  environment_variables:
    A: b
";

/// The smallest deployment, in the older form without `settings`.
const OLD: &str = "$schema: https://example.org/batchDeployment.schema.json\nname: demo\n\
                   code_configuration: {code: source, scoring_script: inner.wasm}\n";

const DATA: (&str, &str) = ("inputs.data.path", "data");

/// Rules C5, C6, C7, C9, C13, C14, C16, C17 and V3 in docs/parallel-run-step.md: the settings of a deployment
/// have their documented meaning.
#[test]
fn a_deployment_loads() {
    let spec = job_with(DEPLOYMENT, &[DATA]);
    assert_eq!(spec.name, "classifier-custom");
    assert_eq!(spec.entry_script.to_str(), Some("/dir/source/inner.wasm"));
    assert_eq!(spec.source_directory.as_deref().and_then(|it| it.to_str()), Some("/dir/source"));
    assert_eq!(spec.inputs[0].paths, ["/dir/data"]);
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 2 });
    assert_eq!((spec.process_count, spec.settings.run_max_try), (3, 2));
    assert_eq!(spec.settings.run_invocation_timeout, Duration::from_secs(300));
    assert_eq!(spec.settings.error_threshold, ErrorThreshold::AtMost(7));
    assert_eq!(spec.worker.output_action, OutputAction::AppendRow);
    assert_eq!(spec.append_row_file_name, "rows.csv");
    assert_eq!(spec.side_inputs[0].host.to_str(), Some("/dir/weights"));
    let variables = [("A", "b"), ("AZUREML_MODEL_DIR", "/side_inputs/model")];
    assert_eq!(spec.environment_variables, variables.map(|(k, v)| (k.to_owned(), v.to_owned())));
    insta::assert_snapshot!(describe(&spec), @"
    13 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    resources.instance_count: the file asks for 2 nodes; the job runs on this machine only, with settings.max_concurrency_per_instance workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)
    endpoint_name: ignored, there are no endpoints on this machine
    code_configuration.code is read as source_directory
    code_configuration.scoring_script is read as entry_script
    model.path is read as side_inputs.model, and AZUREML_MODEL_DIR is its folder, /side_inputs/model
    environment: ignored, an entry script is a component and contains everything that it needs
    compute: ignored, the job runs on this machine
    settings.retry_settings.max_retries 1 is run_max_try 2: the first attempt also counts
    settings.retry_settings.timeout is read as run_invocation_timeout
    settings.output_file_name is read as append_row_file_name
    settings.max_concurrency_per_instance is read as process_count_per_node
    task_overhead_timeout is not in the file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the file: 600 seconds (as in Azure)
    progress_update_timeout is not in the file: 1860 seconds, from attempts x (task_overhead_timeout + settings.retry_settings.timeout) + 60 = 2 x (600 + 300) + 60, and at least 600
    ");
}

/// Azure's defaults for a deployment, in the current and in the older form.
#[test]
fn defaults_of_a_deployment() {
    let spec = job_with(OLD, &[DATA]);
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 10 });
    assert_eq!((spec.process_count, spec.settings.run_max_try), (1, 4));
    assert_eq!(spec.settings.run_invocation_timeout, Duration::from_secs(30));
    assert_eq!(spec.settings.error_threshold, ErrorThreshold::Ignore);
    assert_eq!(spec.append_row_file_name, "predictions.csv");
    insta::assert_snapshot!(describe(&spec), @"
    13 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    code_configuration.code is read as source_directory
    code_configuration.scoring_script is read as entry_script
    mini_batch_size is not in the file: 10 (as in Azure)
    max_concurrency_per_instance is not in the file: 1 (as in Azure)
    error_threshold is not in the file: -1 (as in Azure)
    retry_settings.max_retries is not in the file: 3 (as in Azure)
    retry_settings.timeout is not in the file: 30 (as in Azure)
    output_action is not in the file: append_row (as in Azure)
    output_file_name is not in the file: predictions.csv (as in Azure)
    task_overhead_timeout is not in the file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the file: 600 seconds (as in Azure)
    progress_update_timeout is not in the file: 2580 seconds, from attempts x (task_overhead_timeout + retry_settings.timeout) + 60 = 4 x (600 + 30) + 60, and at least 600
    logging_level is not in the file: INFO (as in Azure)
    ");
    let flat = "mini_batch_size: 4\nretry_settings: {max_retries: 2, timeout: 5}\noutput_file_name: a.csv\n";
    let spec = job_with(&format!("{OLD}{flat}"), &[DATA]);
    assert_eq!(spec.input_kind, InputKind::Files { mini_batch_files: 4 });
    assert_eq!((spec.settings.run_max_try, spec.append_row_file_name.as_str()), (3, "a.csv"));
    // Azure's default is a number of files, so it does not apply to a table.
    let spec = job_with(OLD, &[DATA, ("inputs.data.format", "csv")]);
    assert!(matches!(spec.input_kind, InputKind::Tables { .. }), "{spec:?}");
}

/// An ONNX model becomes a model of the job. Any other model becomes a side input. The user must
/// replace a model that is registered in Azure by a model on this machine.
#[test]
fn models_of_deployments() {
    let spec = job_with(DEPLOYMENT, &[DATA, ("model", "digits.onnx")]);
    assert_eq!((spec.models[0].name.as_str(), spec.side_inputs.len()), ("model", 0));
    assert_eq!(spec.environment_variables[1].1, "/models/model");
    let spec = job_with(DEPLOYMENT, &[DATA, ("model", "weights/digits.bin")]);
    assert_eq!(spec.environment_variables[1].1, "/side_inputs/model");
    let azure = DEPLOYMENT.replace("{name: heart, path: weights}", "azureml:heart@latest");
    insta::assert_snapshot!(errors_with(&azure, &[DATA]), @r#"job.yaml:7: model: found "azureml:heart@latest", which is not on this machine; fetch it first, and name it here by --set model=...; or register it here as heart@latest (sandmill dataset register)"#);
    let named = DEPLOYMENT.replace("{name: heart, path: weights}", "{name: heart, version: 3}");
    insta::assert_snapshot!(errors_with(&named, &[DATA]), @r#"job.yaml:7: model: found "azureml:heart:3", which is not on this machine; fetch it first, and name it here by --set model=...; or register it here as heart@3 (sandmill dataset register)"#);
    let wrong = DEPLOYMENT.replace("path: weights}", "path: nowhere}");
    insta::assert_snapshot!(errors_with(&wrong, &[DATA]), @"job.yaml:7: model.path: there is no [dir]/nowhere; name a folder or a file");
    insta::assert_snapshot!(errors_with(&DEPLOYMENT.replace("{name: heart, path: weights}", "[a]"), &[DATA]), @"job.yaml:7: model: found a list; expected a path or a map");
    insta::assert_snapshot!(errors_with(&DEPLOYMENT.replace("{name: heart, path: weights}", "{}"), &[DATA]), @"job.yaml:7: model: has no path; name the model's file or folder");
}

/// Errors use the names of a deployment.
#[test]
fn errors_of_deployments() {
    insta::assert_snapshot!(errors(DEPLOYMENT), @"job.yaml: inputs: missing; in Azure, each call of the endpoint passes them: name them by --set inputs.images.path=data");
    let text = DEPLOYMENT
        .replace("code: source", "code: nowhere")
        .replace("instance_count: 2", "instance_count: 0")
        .replace("instance: 3", "instance: 0")
        .replace("mini_batch_size: 2", "mini_batch_size: 2kb")
        .replace("output_action: append_row", "output_action: all")
        .replace("rows.csv", "a/b")
        .replace("max_retries: 1", "max_retries: few")
        .replace("timeout: 300", "timeout: 0")
        .replace("error_threshold: 7", "error_threshold: -2")
        .replace("logging_level: debug", "logging_level: loud")
        .replace("A: b", "A: ${{inputs.x}}");
    insta::assert_snapshot!(errors_with(&text, &[DATA]), @r#"
    job.yaml:10: code_configuration.code: there is no [dir]/nowhere
    job.yaml:14: resources.instance_count: found 0; expected a whole number of machines from 1 to 1000 (e.g. 4)
    job.yaml:16: settings.max_concurrency_per_instance: found 0; expected a whole number of workers from 1 to 1000 (e.g. 4)
    job.yaml:17: settings.mini_batch_size: found "2kb"; expected a whole number of files of at least 1 (e.g. 10); sizes are for tables: an input is a table if it has mode: direct (type mltable) or a format (e.g. format: csv)
    job.yaml:18: settings.output_action: found "all"; expected append_row or summary_only
    job.yaml:19: settings.output_file_name: found "a/b" with '/' in it; a file name must have none of ~ " # % & * : < > ? / \ { | }
    job.yaml:21: settings.retry_settings.max_retries: found "few"; expected a whole number of retries from 0 up, after the first attempt
    job.yaml:22: settings.retry_settings.timeout: found 0; expected seconds, more than 0 and at most 259200 (e.g. 60)
    job.yaml:23: settings.error_threshold: found -2; expected a whole number of items from 0 up, or -1 to ignore all failures
    job.yaml:24: settings.logging_level: found "loud"; expected WARNING, INFO or DEBUG
    job.yaml:26: settings.environment_variables.A: found the unknown reference ${{inputs.x}}; the known references are ${{inputs.data}}, ${{side_inputs.model}}, ${{output}}, ${{source}}
    "#);
    insta::assert_snapshot!(errors_with(&OLD.replace("code: source", "folder: source"), &[DATA, ("mini_batch_size", "none")]), @r#"
    job.yaml:3: code_configuration.folder: unknown key; the known keys are code, scoring_script
    job.yaml:3: code_configuration.scoring_script: there is no [dir]/inner.wasm; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts); or set code_configuration.code, which is missing, to the folder that holds it
    --set mini_batch_size: found "none"; expected a whole number of files of at least 1 (e.g. 10)
    "#);
    insta::assert_snapshot!(errors_with(OLD, &[DATA, ("settings.mini_batch_size", "none")]), @r#"--set settings.mini_batch_size: found "none"; expected a whole number of files of at least 1 (e.g. 10)"#);
    insta::assert_snapshot!(errors_with(&DEPLOYMENT.replace("inner.wasm", "score.py"), &[DATA]), @"job.yaml:11: code_configuration.scoring_script: there is no [dir]/source/score.py; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)");
}

/// Deployments that have no scoring script, that deploy a pipeline, or that answer single requests are
/// refused.
#[test]
fn deployments_that_do_not_run_here() {
    let bare = DEPLOYMENT
        .replace("code_configuration:\n  code: source\n  scoring_script: inner.wasm\n", "");
    insta::assert_snapshot!(errors_with(&bare, &[DATA]), @"job.yaml: has no code_configuration: Azure generates the Python scoring script for models of MLflow or of a registry, but Sandmill does not; write an entry script that loads the model, and name it by --set entry_script=FILE");
    insta::assert_snapshot!(errors("$schema: https://example.org/batchDeployment.schema.json\nname: demo\nmini_batch_size: 10\n"), @"job.yaml: has no code_configuration: Azure generates the Python scoring script for models of MLflow or of a registry, but Sandmill does not; write an entry script that loads the model, and name it by --set entry_script=FILE");
    let spec = job_with(&bare, &[DATA, ("entry_script", "script.wasm")]);
    assert_eq!(spec.entry_script.to_str(), Some("/dir/script.wasm"));
    insta::assert_snapshot!(errors("$schema: https://example.org/pipelineComponentBatchDeployment.schema.json\nname: a\nendpoint_name: b\ntype: pipeline\ncomponent: pipeline.yml\n"), @"job.yaml:4: type: deploys a pipeline to a batch endpoint; instead, run the pipeline's own file, one parallel job at a time (--job NAME)");
    insta::assert_snapshot!(errors("$schema: https://example.org/managedOnlineDeployment.schema.json\nname: a\nendpoint_name: b\ncode_configuration: {code: c}\n"), @"job.yaml:1: is a deployment to an online endpoint, which answers single requests; only deployments to batch endpoints run here");
    insta::assert_snapshot!(errors("name: a\nendpoint_name: b\ntype: kafka\n"), @r#"job.yaml:3: type: found "kafka"; only deployments of type model run here"#);
}

/// A6: in Azure's files, copies to a parent are ignored if there is no parent.
#[test]
fn a_job_without_a_parent_copies_nothing() {
    let text = super::version2::JOB.replace("--error_threshold 7", "--copy_logs_to_parent True");
    let spec = job(&text);
    assert!(spec.parent.is_none());
    assert!(
        describe(&spec)
            .contains("copy_logs_to_parent: ignored, the job is not part of another job here")
    );
}

/// A single file may be a side input. The entry script then sees only that file.
#[test]
fn a_single_file_is_a_side_input() {
    let spec = job(
        "entry_script: script.wasm\ninputs: {a: data}\nside_inputs: {w: weights/digits.bin}\narguments: [--w, \"${{side_inputs.w}}\"]\n",
    );
    assert_eq!(spec.side_inputs[0].guest, "/side_inputs/w");
    let fixture = SpecFixture::new();
    let text = "entry_script: script.wasm\ninputs: {a: data}\nside_inputs: {w: weights/digits.bin}\narguments: [--w, \"${{side_inputs.w}}\"]\n";
    let spec = fixture.load(text, &[]).expect("a job");
    assert_eq!(spec.arguments, ["--w", "/side_inputs/w/digits.bin"]);
    assert!(fs::metadata(&spec.side_inputs[0].host).expect("it is there").is_file());
}
