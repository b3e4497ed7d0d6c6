use super::{SpecFixture, describe, errors, errors_with, job, job_with};
use std::fs;

/// A component as in Azure's registry, with types for its inputs, and with optional arguments.
const COMPONENT: &str = r#"
$schema: https://example.org/parallelComponent.schema.json
type: parallel
name: train_step
version: 0.0.12
is_deterministic: false
inputs:
  partitioned_data: {type: uri_folder, description: 'Folder URI'}
  labels: {type: uri_file}
  instance_count: {type: integer, min: 1, max: 9}
  rate: {type: number, default: 0.5}
  explain: {type: boolean}
  mode: {type: string, enum: [fast, slow], default: fast}
  resume_from: {type: string, optional: True}
  metadata: {type: uri_folder, optional: true}
outputs:
  output_metadata: {type: uri_folder}
  prs_output: {type: uri_folder}
input_data: ${{inputs.partitioned_data}}
output_data: ${{outputs.prs_output}}
mini_batch_size: "1"
resources: {instance_count: -1}
max_concurrency_per_instance: 4
task:
  type: run_function
  code: ../source
  entry_script: inner.wasm
  environment: azureml:env:1
  program_arguments: >-
    --labels ${{inputs.labels}} --nodes ${{inputs.instance_count}}
    --rate ${{inputs.rate}} --explain ${{inputs.explain}}
    $[[--mode ${{inputs.mode}}]] $[[--resume_from ${{inputs.resume_from}}]]
    $[[--metadata ${{inputs.metadata}}]]
    --copy_logs_to_parent True
    --process_count_per_node 2
    --out ${{outputs.output_metadata}} --prs ${{outputs.prs_output}}
append_row_to: ${{outputs.output_metadata}}
"#;

const GIVEN: [(&str, &str); 4] = [
    ("inputs.partitioned_data.path", "data"),
    ("inputs.labels.path", "weights/digits.bin"),
    ("inputs.instance_count", "3"),
    ("inputs.explain", "True"),
];

fn component() -> String {
    COMPONENT.replace("../source", "source")
}

/// A component runs on its own if its inputs have values.
#[test]
fn a_component_runs_once_its_inputs_are_given() {
    let fixture = SpecFixture::new();
    let spec = fixture.load(component(), &GIVEN).expect("a job");
    insta::assert_snapshot!(spec.arguments[..spec.own_arguments].join(" "), @"--labels /side_inputs/labels/digits.bin --nodes 3 --rate 0.5 --explain True --mode fast --copy_logs_to_parent True --process_count_per_node 2 --out /output --prs /output/prs_output");
    assert_eq!(spec.process_count, 2, "as ParallelRunStep's driver takes it");
    assert!(!spec.settings.allow_reuse);
    insta::assert_snapshot!(describe(&spec), @"
    23 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    resources.instance_count: the file asks for all nodes of a cluster; the job runs on this machine only, with max_concurrency_per_instance workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)
    append_row_to is read as task.append_row_to
    input_data: inputs.partitioned_data is cut into mini-batches
    inputs.labels is read as side_inputs.labels
    inputs.resume_from: optional, and not given
    inputs.metadata: optional, and not given
    outputs.prs_output is the folder prs_output in the output folder; the entry script creates it
    task.code is read as source_directory
    task.environment: ignored, an entry script is a component and contains everything that it needs
    task.program_arguments is read as arguments
    version: ignored, for Azure's registry only
    is_deterministic is read as allow_reuse
    max_concurrency_per_instance is read as process_count_per_node
    task.program_arguments: --copy_logs_to_parent sets copy_logs_to_parent to True; the entry script gets it too
    task.program_arguments: --process_count_per_node sets process_count_per_node to 2; the entry script gets it too
    task.append_row_to is not in the file: parallel_run_step.txt (as in Azure)
    retry_settings.max_retries is not in the file: 2 (as in Azure)
    retry_settings.timeout is not in the file: 60 seconds (as in Azure)
    task_overhead_timeout is not in the file: 600 seconds (Azure's pages say 30 or 600)
    first_task_creation_timeout is not in the file: 600 seconds (as in Azure)
    progress_update_timeout is not in the file: 2040 seconds, from attempts x (task_overhead_timeout + retry_settings.timeout) + 60 = 3 x (600 + 60) + 60, and at least 600
    error_threshold is not in the file: -1 (as in Azure)
    logging_level is not in the file: INFO (as in Azure)
    copy_logs_to_parent: ignored, the job is not part of another job here
    ");
    let mut given = GIVEN.to_vec();
    given.extend([
        ("inputs.resume_from", "x y"),
        ("inputs.metadata.path", "weights2"),
        ("inputs.mode", "slow"),
    ]);
    let spec = fixture.load(component(), &given).expect("a job");
    insta::assert_snapshot!(spec.arguments[..spec.own_arguments].join(" "), @"--labels /side_inputs/labels/digits.bin --nodes 3 --rate 0.5 --explain True --mode slow --resume_from x y --metadata /side_inputs/metadata --copy_logs_to_parent True --process_count_per_node 2 --out /output --prs /output/prs_output");
}

/// Values and paths that are missing or have the wrong type.
#[test]
fn inputs_are_of_their_types() {
    insta::assert_snapshot!(errors(&component()), @"
    job.yaml:8: inputs.partitioned_data: has no path; name its files or its folder by --set inputs.partitioned_data.path=PATH
    job.yaml:9: inputs.labels: is a uri_file without a path; name one by --set inputs.labels.path=FILE
    job.yaml:10: inputs.instance_count: is a whole number without a value; give it a value by --set inputs.instance_count=5
    job.yaml:12: inputs.explain: is true or false without a value; give it a value by --set inputs.explain=true
    ");
    let mut given = GIVEN.to_vec();
    given.extend([
        ("inputs.rate", "much"),
        ("inputs.mode", "idle"),
        ("inputs.explain", "maybe"),
        ("inputs.instance_count", "10"),
    ]);
    insta::assert_snapshot!(errors_with(&component(), &given), @r#"
    --set inputs.explain: found "maybe"; expected true or false
    --set inputs.instance_count: found 10; expected at most 9
    --set inputs.mode: found "idle"; expected one of fast, slow
    --set inputs.rate: found "much"; expected a number
    "#);
    let mut given = GIVEN.to_vec();
    given.extend([("inputs.instance_count", "2.5"), ("inputs.labels.path", "nowhere")]);
    insta::assert_snapshot!(errors_with(&component(), &given), @"
    --set inputs.instance_count: found 2.5; expected a whole number
    --set inputs.labels.path: there is no [dir]/nowhere; name a folder or a file
    ");
    let ungrouped = component().replace(
        "$[[--resume_from ${{inputs.resume_from}}]]",
        "--resume_from ${{inputs.resume_from}}",
    );
    insta::assert_snapshot!(errors_with(&ungrouped, &GIVEN), @"job.yaml:29: task.program_arguments: found ${{inputs.resume_from}}, which is optional and has no value; give it a value by --set inputs.resume_from=..., or put the argument into an optional group, as in $[[--x ${{inputs.resume_from}}]]");
    insta::assert_snapshot!(errors_with(&component().replace("inputs.metadata}}]]", "inputs.metadata}}"), &GIVEN), @"job.yaml:29: task.program_arguments: a $[[ is not closed by ]]");
    insta::assert_snapshot!(errors_with(&component().replace("${{outputs.prs_output}}\nmini", "${{outputs.none}}\nmini"), &GIVEN), @r#"job.yaml:20: output_data: found the output "none", which is not in outputs"#);
    insta::assert_snapshot!(errors_with(&component().replace("${{outputs.prs_output}}\nmini", "here\nmini"), &GIVEN), @r#"job.yaml:20: output_data: found "here"; expected one of the outputs, as in ${{outputs.x}}"#);
}

/// Only tables have sizes in bytes.
#[test]
fn a_size_in_bytes_makes_a_table_of_an_mltable() {
    let text = component()
        .replace("{type: uri_folder, description: 'Folder URI'}", "{type: mltable}")
        .replace("\"1\"", "3kb");
    let spec = job_with(
        &text,
        &[("inputs.partitioned_data.path", "data/*.csv"), GIVEN[1], GIVEN[2], GIVEN[3]],
    );
    assert!(matches!(spec.input_kind, crate::model::InputKind::Tables { .. }));
    let mut given = GIVEN.to_vec();
    given.push(("inputs.partitioned_data.mode", "eval_mount"));
    insta::assert_snapshot!(errors_with(&text, &given), @r#"
    job.yaml:21: mini_batch_size: found "3kb"; expected a whole number of files of at least 1 (e.g. 10); sizes are for tables, and input partitioned_data is an mltable without mode: direct, which is a list of files
    --set inputs.partitioned_data.path: [dir]/data/MLTable: there is no such file; name the folder of an MLTable file, or the data files themselves
    "#);
}

fn pipeline(component: &str) -> String {
    format!(
        "type: pipeline\ninputs: {{rows: {{type: uri_folder, path: data}}}}\njobs:\n  score:\n    type: parallel\n    \
         component: {component}\n    inputs:\n      partitioned_data: ${{{{parent.inputs.rows}}}}\n      labels: \
         {{type: uri_file, path: weights/digits.bin}}\n      instance_count: 2\n      explain: false\n    \
         mini_batch_size: 5\n    retry_settings: {{timeout: 7}}\n"
    )
}

/// A job's component may be a file on this machine. The job's own settings take precedence.
#[test]
fn a_component_on_this_machine_is_read() {
    let fixture = SpecFixture::new();
    let dir = fixture.0.path();
    fs::create_dir(dir.join("parts")).expect("a folder");
    fs::write(dir.join("parts/train.yml"), COMPONENT).expect("a component");
    for component in ["./parts/train.yml", "file:parts/train.yml", "file:./parts/train.yml"] {
        let spec = fixture.load(pipeline(component), &[]).expect("a job");
        assert_eq!(spec.name, "score");
        assert_eq!(spec.entry_script, dir.join("parts/../source/inner.wasm"));
        assert_eq!(spec.input_kind, crate::model::InputKind::Files { mini_batch_files: 5 });
        assert_eq!(spec.settings.run_invocation_timeout.as_secs(), 7);
        insta::allow_duplicates! {
            insta::assert_snapshot!(spec.arguments[..8].join(" "), @"--labels /side_inputs/labels/digits.bin --nodes 2 --rate 0.5 --explain false");
        }
    }
    let inline = COMPONENT.replace("../source", "source").trim().replace('\n', "\n      ");
    let spec = fixture.load(pipeline(&format!("\n      {inline}")), &[]).expect("a job");
    assert_eq!(spec.entry_script, dir.join("source/inner.wasm"));
    let text = pipeline("azureml:train_step:1");
    let spec = fixture.load(text, &[("component", "parts/train.yml")]).expect("a job");
    assert_eq!(spec.entry_script, dir.join("parts/../source/inner.wasm"));
}

/// An error in a component names the component's file and line.
#[test]
fn components_that_do_not_fit() {
    insta::assert_snapshot!(errors(&pipeline("azureml:train_step:1")), @"job.yaml:6: component: names a component in Azure, which cannot be read here; name its file by --set component=FILE, or write its task and its settings into the job itself");
    insta::assert_snapshot!(errors(&pipeline("./nowhere.yml")), @"job.yaml:6: component: [dir]/nowhere.yml: there is no such file");
    insta::assert_snapshot!(errors(&pipeline("[a]")), @"job.yaml:6: component: found a list; expected a component's file");
    let wrong = |component: &str| {
        let fixture = SpecFixture::new();
        fs::write(fixture.0.path().join("c.yml"), component).expect("a component");
        fixture.load(pipeline("c.yml"), &[]).expect_err("it has errors")
    };
    insta::assert_snapshot!(wrong("type: command\n"), @r#"job.yaml:6: component: names a component of type "command"; only components of type parallel run here"#);
    insta::assert_snapshot!(wrong("nodes: []\n"), @"job.yaml:6: component: names a component without a type; only components of type parallel run here");
    insta::assert_snapshot!(wrong("- a\n"), @"job.yaml:6: component: [dir]/c.yml holds a list; expected a component");
    insta::assert_snapshot!(wrong("type: 'a\n"), @"[dir]/c.yml:1: not valid YAML (column 7): while scanning a quoted scalar, found unexpected end of stream");
    insta::assert_snapshot!(wrong(&component().replace("  explain: {type: boolean}\n", "").replace("max_concurrency_per_instance: 4", "max_concurrency_per_instance: 0").replace("--process_count_per_node 2", "--explode ${{inputs.explain}}").replace("inner.wasm", "score.py")), @"
    job.yaml:11: inputs.explain: the component has no such input; it has partitioned_data, labels, instance_count, rate, mode, resume_from, metadata
    [dir]/c.yml:22: max_concurrency_per_instance: found 0; expected a whole number of workers from 1 to 1000 (e.g. 4)
    [dir]/c.yml:26: task.entry_script: there is no [dir]/source/score.py; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    ");
}

/// Azure's own keys can be set by their names in the file.
#[test]
fn azure_keys_are_set_by_their_own_names() {
    let spec = job_with(
        &component(),
        &[
            GIVEN[0],
            GIVEN[1],
            GIVEN[2],
            GIVEN[3],
            ("task.code", "."),
            ("task.entry_script", "script.wasm"),
            ("retry_settings.max_retries", "4"),
            ("resources.instance_count", "2"),
        ],
    );
    assert_eq!(
        (spec.entry_script.to_str(), spec.settings.run_max_try),
        (Some("/dir/script.wasm"), 5)
    );
    let mut given = GIVEN.to_vec();
    given.extend([("task.code", "nowhere"), ("retry_settings.timeout", "0")]);
    insta::assert_snapshot!(errors_with(&component(), &given), @"
    --set retry_settings.timeout: found 0; expected seconds, more than 0 and at most 259200 (e.g. 60)
    --set task.code: there is no [dir]/nowhere
    ");
}

/// Inputs of a pipeline may have long descriptions, and optional inputs may have no value.
#[test]
fn inputs_of_a_pipeline_are_passed_on() {
    let long = "x".repeat(2000);
    let text = format!(
        "type: pipeline\ninputs:\n  rate: {{type: number, default: 0.25, description: {long}}}\n  none: {{type: string, \
         optional: true, description: {long}}}\n  rows: {{type: uri_folder, path: data, description: {long}}}\njobs:\n  \
         score:\n    type: parallel\n    inputs: {{d: '${{{{parent.inputs.rows}}}}', r: '${{{{parent.inputs.rate}}}}', n: \
         '${{{{parent.inputs.none}}}}'}}\n    input_data: ${{{{inputs.d}}}}\n    task: {{type: run_function, entry_script: \
         script.wasm, program_arguments: '--r ${{{{inputs.r}}}} $[[--n ${{{{inputs.n}}}}]]'}}\n"
    );
    let spec = job(&text);
    assert_eq!(spec.arguments[..spec.own_arguments], ["--r", "0.25"]);
}

/// The length of a value is limited, so a file with many references cannot grow without bound.
#[test]
fn a_value_of_an_input_is_short() {
    let long = "x".repeat(2000);
    let text = component()
        .replace("default: 0.5", "default: 0.5}\n  long: {type: string, default: LONG")
        .replace("--rate", "--long ${{inputs.long}} --rate")
        .replace("LONG", &long);
    let reported = errors_with(&text, &GIVEN);
    insta::assert_snapshot!(reported, @"job.yaml:12: inputs.long: found a text of 2000 bytes; the value of an input has at most 1024 bytes: put a longer text into a file, and pass the file as an input of type uri_file");
}

/// `--set inputs.x=PATH` names other data, so the file's settings for its own data do not apply.
#[test]
fn setting_an_input_drops_its_old_settings() {
    let job = "$schema: x/parallelJob.schema.json\ntype: parallel\n\
        inputs: {a: {type: uri_folder, path: gone, take: 5, format: csv}}\n\
        input_data: ${{inputs.a}}\ntask: {type: run_function, code: source, entry_script: inner.wasm}\n";
    let job = job_with(job, &[("inputs.a", "data")]);
    assert_eq!(job.inputs[0].take, None);
}

/// The command line overrides everything, including options among the arguments.
#[test]
fn workers_of_the_command_line_win() {
    let job =
        job_with(&component(), &[GIVEN.as_slice(), &[("process_count_per_node", "7")]].concat());
    assert_eq!(job.process_count, 7);
}

/// Folders in the address of a schema may have any name.
#[test]
fn a_component_schema_may_be_in_a_folder_called_deployment() {
    let text = component().replace("https://example.org/", "https://example.org/deployment/");
    assert_eq!(job_with(&text, &GIVEN).process_count, 2);
}
