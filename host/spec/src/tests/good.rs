use super::{LEAST, errors, job, job_with};
use crate::defaults::default_job;
use crate::keys::JOB;
use crate::model::{
    AllowedPercent, ByteSize, Column, ColumnType, CsvFormat, ErrorThreshold, InputKind, JobInput,
    JobLimits, JobSettings, JobText, Limits, LoggingLevel, Mount, OnConflict, OsSandbox,
    OutputAction, OutputFormat, SliceSize, TableInput, TableKind, WorkerSettings,
};
use crate::{FetchedScript, JobSpec};
use std::path::PathBuf;
use std::time::Duration;

fn input(name: &str, paths: &[&str]) -> JobInput {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    JobInput { name: name.to_owned(), paths, partition_format: None, take: None }
}

fn least() -> JobSpec {
    JobSpec {
        name: "job".into(),
        entry_script: "/dir/script.wasm".into(),
        entry_script_digest: None,
        source_directory: None,
        script: None,
        inputs: vec![input("images", &["/dir/data"])],
        input_kind: InputKind::Files { mini_batch_files: 10 },
        side_inputs: Vec::new(),
        side_input_names: Vec::new(),
        stored: Vec::new(),
        models: Vec::new(),
        inference: crate::model::InferenceSettings::default(),
        output: None,
        upload: None,
        arguments: Vec::new(),
        own_arguments: 0,
        environment_variables: Vec::new(),
        process_count: 1,
        node_count: 1,
        append_row_file_name: "parallel_run_step.txt".into(),
        earlier_file_name: None,
        job_file_sha256: String::new(),
        text: JobText::default(),
        fetched: FetchedScript::default(),
        settings: JobSettings {
            ordered: false,
            output_files: OnConflict::Error,
            allow_reuse: true,
            error_threshold: ErrorThreshold::AtMost(0),
            allowed_failed_count: ErrorThreshold::Ignore,
            allowed_failed_percent: AllowedPercent::ALL,
            run_max_try: 3,
            run_invocation_timeout: Duration::from_secs(60),
            task_overhead_timeout: Duration::from_secs(600),
            first_task_creation_timeout: Duration::from_secs(600),
            resource_monitor_interval: Some(Duration::from_secs(600)),
            ..JobSettings::default()
        },
        worker: WorkerSettings {
            output_action: OutputAction::AppendRow,
            strict_cardinality: false,
            logging_level: LoggingLevel::Info,
            os_sandbox: OsSandbox::Required,
            deterministic: false,
            ..WorkerSettings::default()
        },
        limits: Limits::default(),
        job_limits: JobLimits::default(),
        progress_update_timeout: Duration::from_secs(2040),
        gpus: 0,
        partition_keys: Vec::new(),
        output_format: OutputFormat::default(),
        job_store: None,
        parent: None,
        latest: Vec::new(),
        named_data: Default::default(),
        notices: Vec::new(),
        conversions: Vec::new(),
    }
}

/// The defaults are those in docs/parallel-run-step.md: rules A1, A3, A4, C7, C9, C13 to C17, C25, C26 and
/// E17.
#[test]
fn the_least_job_file_gets_the_defaults() {
    assert_eq!(job(LEAST), least());
}

/// A job file that gives the default of every key loads to the same job as the smallest job file.
#[test]
fn the_default_job_file_is_a_job_file() {
    assert_eq!(job(&format!("{}{LEAST}", default_job(JOB, ""))), least());
}

/// C1, C14, C18, C22, C26.
#[test]
fn a_file_with_everything() {
    let text = r#"
name: nightly
description: Digits
tenant: radiology
entry_script: "  inner.wasm "
entry_script_digest: sha256:9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08
source_directory: ./source
inputs:
  images: ./data/*.png
  more: {paths: [data/a, /elsewhere/b], format: Files}
side_inputs:
  model: weights
  other: {path: weights2, mount_path: /models/other/}
output: results
arguments: [--model, "${{ side_inputs.model }}/digits.bin", --in=${{inputs.more}}, -n, 1.50]
environment_variables: {MODE: fast, VERSION: 1.10, FLAG: true, M: "${{side_inputs.other}}:${{output}}:${{source}}"}
mini_batch_size: 20
process_count_per_node: 4
node_count: 1
output_action: Summary_Only
append_row_file_name: "any/thing, as it is not used"
error_threshold: -1
run_max_try: 5
run_invocation_timeout: 1.5
logging_level: debug
limits: {memory: 512MB, fuel: 1000000, read: 1024, results: 2 GB}
rank_mini_batch_count: -3
"#
    .replace("--in=${{inputs.more}}", "\"--in=${{inputs.more}}\"");
    let expected = JobSpec {
        name: "nightly".into(),
        entry_script: "/dir/source/inner.wasm".into(),
        entry_script_digest: Some(
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        ),
        source_directory: Some("/dir/source".into()),
        inputs: vec![
            input("images", &["/dir/data/*.png"]),
            input("more", &["/dir/data/a", "/elsewhere/b"]),
        ],
        input_kind: InputKind::Files { mini_batch_files: 20 },
        side_inputs: vec![
            Mount {
                host: "/dir/weights".into(),
                guest: "/side_inputs/model".into(),
                writable: false,
            },
            Mount { host: "/dir/weights2".into(), guest: "/models/other".into(), writable: false },
        ],
        side_input_names: vec!["model".to_owned(), "other".to_owned()],
        output: Some("/dir/results".into()),
        own_arguments: 5,
        arguments: ["--model", "/side_inputs/model/digits.bin", "--in=/inputs/more", "-n", "1.50"]
            .map(str::to_owned)
            .to_vec(),
        environment_variables: [
            ("MODE", "fast"),
            ("VERSION", "1.10"),
            ("FLAG", "true"),
            ("M", "/models/other:/output:/source"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        process_count: 4,
        append_row_file_name: "any/thing, as it is not used".into(),
        settings: JobSettings {
            description: "Digits".into(),
            tenant: "radiology".into(),
            error_threshold: ErrorThreshold::Ignore,
            run_max_try: 5,
            run_invocation_timeout: Duration::from_millis(1500),
            ..JobSettings::default()
        },
        worker: WorkerSettings {
            output_action: OutputAction::SummaryOnly,
            logging_level: LoggingLevel::Debug,
            ..WorkerSettings::default()
        },
        limits: Limits {
            memory: ByteSize(512 << 20),
            fuel: Some(1_000_000),
            read: ByteSize(1024),
            results: ByteSize(2 << 30),
            ..Limits::default()
        },
        progress_update_timeout: Duration::from_millis(3_067_500),
        notices: Vec::new(),
        conversions: Vec::new(),
        ..least()
    };
    assert_eq!(job(&text), expected);
}

#[test]
fn csv_inputs_as_a_list() {
    let spec = job(r#"
entry_script: guest
mini_batch_size: 100 KB
schema_inference: full
inputs:
  - name: a
    path: data
    format: csv
    duplicate_names: rename
  - name: b
    paths: [data/b.csv]
    format: csv
    delimiter: tab
    header: false
    null_values: [NA, -1]
    quote: "'"
    escape: "'"
    comment: '#'
    skip_lines: 3
    schema: {z: int64, a: Timestamp}
"#);
    assert_eq!(spec.entry_script, PathBuf::from("/dir/guest"));
    let columns = vec![
        Column { name: "z".into(), kind: ColumnType::Int64 },
        Column { name: "a".into(), kind: ColumnType::Timestamp },
    ];
    let renamed = CsvFormat { rename_duplicates: true, ..CsvFormat::default() };
    let dialect = CsvFormat {
        delimiter: b'\t',
        header: false,
        null_values: vec!["NA".into(), "-1".into()],
        quote: Some(b'\''),
        comment: Some(b'#'),
        skip_lines: 3,
        ..CsvFormat::default()
    };
    assert_eq!(
        spec.input_kind,
        InputKind::Tables {
            mini_batch_size: SliceSize::Bytes(100 << 10),
            inputs: vec![
                TableInput { csv: renamed, ..TableInput::default() },
                TableInput { csv: dialect, schema: Some(columns), ..TableInput::default() },
            ],
            full_inference: true,
        }
    );
    let kinds = job(r#"
entry_script: script.wasm
inputs:
  a: {path: data, format: tsv, columns: [b, a], hive: false}
  b: {path: data, format: JSONL, schema: {x: int64}}
  c: {path: data, format: parquet}
  d: {path: data, format: arrow, hive: true}
  e: {path: data, format: sqlite, table: 'a "b"'}
  f: {path: data, format: sqlite, query: select 1 as one}
"#);
    let InputKind::Tables { inputs, .. } = kinds.input_kind else { panic!("no tables") };
    let kinds = inputs.iter().map(|input| (input.kind, input.csv.delimiter, input.hive));
    assert!(kinds.eq([
        (TableKind::Csv, b'\t', Some(false)),
        (TableKind::Jsonl, b',', None),
        (TableKind::Parquet, b',', None),
        (TableKind::Arrow, b',', Some(true)),
        (TableKind::Sqlite, b',', None),
        (TableKind::Sqlite, b',', None),
    ]));
    assert_eq!(inputs[3].query, None);
    assert_eq!(inputs[4].query.as_deref(), Some("select * from \"a \"\"b\"\"\""));
    assert_eq!(inputs[5].query.as_deref(), Some("select 1 as one"));
    assert_eq!(inputs[0].columns, Some(vec!["b".to_owned(), "a".to_owned()]));
    let defaults = job("entry_script: script.wasm\ninputs: {a: {path: data, format: csv}}");
    assert_eq!(
        defaults.input_kind,
        InputKind::Tables {
            mini_batch_size: SliceSize::Bytes(1 << 20),
            inputs: vec![TableInput::default()],
            full_inference: false,
        }
    );
}

/// M3: a size has no effect for databases, and a notice says so.
#[test]
fn databases_are_not_cut_by_size() {
    let text = "entry_script: script.wasm\nmini_batch_size: 10 rows\n\
                inputs: {a: {path: data, format: sqlite, table: t}, b: {path: data, format: csv}}\n";
    insta::assert_snapshot!(job(text).notices.join("\n"), @"mini_batch_size is 10 rows, but does not cut inputs of format sqlite (inputs.a): the whole result of each database is one mini-batch");
    assert_eq!(job(&text.replace("mini_batch_size: 10 rows\n", "")).notices, Vec::<String>::new());
}

/// C26: void mini-batches need no inputs.
#[test]
fn void_jobs_ignore_inputs_with_a_notice() {
    let spec = job("entry_script: script.wasm\nrank_mini_batch_count: 8");
    assert_eq!(spec.input_kind, InputKind::Void { count: 8 });
    assert_eq!(spec.notices, Vec::<String>::new());
    let spec = job(&format!("{LEAST}rank_mini_batch_count: 8"));
    assert_eq!(spec.inputs, Vec::new());
    insta::assert_snapshot!(
        spec.notices.join("\n"),
        @"inputs are ignored: rank_mini_batch_count is above 0"
    );
    assert_eq!(job(&format!("{LEAST}rank_mini_batch_count: -8")), least(), "below 0 is 0");
}

/// C3, C19: Azure's keys that have no meaning here are ignored with a notice.
#[test]
fn azure_only_keys_are_ignored_with_a_notice() {
    let spec = job(&format!("{LEAST}environment: {{name: x}}\ntags: [a]\n"));
    insta::assert_snapshot!(spec.notices.join("\n"), @r"
environment: ignored, an entry script is a component and contains everything that it needs
tags: ignored, for display in Azure only
");
}

#[test]
fn other_forms_of_yaml() {
    let text = format!("\u{feff}---\r\n{}...\r\n", LEAST.replace('\n', "\r\n"));
    assert_eq!(job(&text), least());
    let text = "x: 1\n";
    assert!(errors(text).contains("unknown key"));
    let anchors = "entry_script: &s script.wasm\ninputs: {a: *s, b: *s}\n";
    assert_eq!(job(anchors).inputs[1].paths, ["/dir/script.wasm"]);
}

#[test]
fn set_removes() {
    let text = format!(
        "{LEAST}run_max_try: 5\nsource_directory: nowhere\nlimits: {{memory: 1GB, fuel: 5}}\n"
    );
    let spec = job_with(
        &text,
        &[("run_max_try", ""), ("source_directory", "~"), ("limits.fuel", "null"), ("no.such", "")],
    );
    assert_eq!(
        (spec.settings.run_max_try, spec.source_directory, spec.limits.fuel),
        (3, None, None)
    );
}

#[test]
fn set_replaces_and_adds() {
    let spec = job_with(
        LEAST,
        &[
            ("limits.memory", "512MB"),
            ("inputs.images.path", "*.png"),
            ("inputs.more", "data"),
            ("inputs.images.paths", "[data, '*.jpg']"),
            ("arguments", "[--threshold, 0.5]"),
            ("environment_variables.a.b", "1"),
            ("run_max_try", "5"),
            ("run_max_try", "6"),
            ("side_inputs.model.path", "weights"),
        ],
    );
    assert_eq!(spec.limits.memory, ByteSize(512 << 20));
    assert_eq!(spec.inputs[0].paths, ["/dir/data", "/dir/*.jpg"]);
    assert_eq!(spec.inputs[1].paths, ["/dir/data"]);
    assert_eq!(spec.arguments, ["--threshold", "0.5"]);
    assert_eq!(spec.environment_variables, [("a.b".to_owned(), "1".to_owned())]);
    assert_eq!(spec.settings.run_max_try, 6);
    assert_eq!(spec.side_inputs.len(), 1);
    let list = "entry_script: script.wasm\ninputs: [{name: a, path: data}, {name: b, path: x}]\n";
    let spec = job_with(list, &[("inputs.b.path", "y"), ("inputs[0].path", "z")]);
    assert_eq!(spec.inputs[0].paths, ["/dir/z"]);
    assert_eq!(spec.inputs[1].paths, ["/dir/y"]);
}

/// A limit above the size of a 32-bit memory causes one notice.
#[test]
fn unreachable_limits_are_noted() {
    let spec = job(&format!("{LEAST}\nlimits: {{memory: 8 GB, read: 4 GB, row: 5 GB}}\n"));
    assert_eq!(spec.limits.memory, ByteSize(8 << 30));
    insta::assert_snapshot!(spec.notices.join("\n"), @"
    limits.memory is 8 GB, but an entry script can use at most 4 GB: the memory of a WebAssembly component cannot be larger
    limits.row is 5 GB, but an entry script can use at most 4 GB: the memory of a WebAssembly component cannot be larger
    ");
}
