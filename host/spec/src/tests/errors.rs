use super::{LEAST, SpecFixture, errors, errors_with, job};
use crate::load_plain;

#[test]
fn all_errors_at_once_with_line_and_key() {
    insta::assert_snapshot!(errors(r#"
name: My Job
mini_bach_size: 5
mini_batch_size: ten
entry_script: nowhere.wasm
inputs:
  images: {path: data, paht: x}
  Rows: data
  both: {path: data, paths: [data]}
  none: {}
side_inputs: weights
limits:
  memory: 10kbmb
  disk: 5
error_threshold: -2
run_max_try: 0
run_invocation_timeout: 259201
logging_level: loud
node_count: 4
process_count_per_node: 2.5
output_action: [append_row]
colour: red
description:
entry_script_digest: abc
"#), @r#"
job.yaml:2: name: found "My Job"; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits)
job.yaml:3: mini_bach_size: unknown key; did you mean mini_batch_size?
job.yaml:4: mini_batch_size: found "ten"; expected a whole number of files of at least 1 (e.g. 10)
job.yaml:5: entry_script: there is no [dir]/nowhere.wasm; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
job.yaml:7: inputs.images.paht: unknown key; did you mean path?
job.yaml:8: inputs.Rows: found the name "Rows"; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits)
job.yaml:9: inputs.both: found path and paths; write only one of them
job.yaml:10: inputs.none: has no path; set path to a file, a folder or a glob, or dataset to a registered name
job.yaml:11: side_inputs: found "weights"; expected a map of names to folders (e.g. model: weights)
job.yaml:13: limits.memory: found "10kbmb"; expected a size of at least 64 KB (e.g. 512 MB); units are KB, MB, GB and TB (powers of 1024), also written K or KiB
job.yaml:14: limits.disk: unknown key; the known keys are memory, stack, fuel, read, results, row, logs, output, files, handles, transfer, models, tensors, mini_batches, reports, failures, copies, job_time
job.yaml:15: error_threshold: found -2; expected a whole number of items from 0 up, or -1 to ignore all failures
job.yaml:16: run_max_try: found 0; expected a whole number of attempts of at least 1 (e.g. 3)
job.yaml:17: run_invocation_timeout: found 259201; expected seconds, more than 0 and at most 259200 (e.g. 60)
job.yaml:18: logging_level: found "loud"; expected WARNING, INFO or DEBUG
job.yaml:19: node_count: found 4; without a broker, a job runs on this machine only: leave node_count out, or connect machines by a broker (--broker URL; see docs/nodes.md)
job.yaml:20: process_count_per_node: found 2.5; expected a whole number of workers from 1 to 1000 (e.g. 4)
job.yaml:21: output_action: found a list; expected append_row or summary_only
job.yaml:22: colour: unknown key; the known keys are name, description, tenant, entry_script, entry_script_digest, source_directory, python, inputs, side_inputs, models, inference, output, job_store, arguments, pass_settings, environment_variables, mini_batch_size, partition_keys, process_count_per_node, gpus, node_count, allow_mixed_backends, output_action, append_row_file_name, output_format, append_row_dataframe_header, output_layout, sample, ordered, join, output_files, allow_reuse, error_threshold, allowed_failed_count, allowed_failed_percent, strict_cardinality, run_max_try, run_invocation_timeout, task_overhead_timeout, progress_update_timeout, first_task_creation_timeout, logging_level, resource_monitor_interval, profiling_module, parent, copy_logs_to_parent, push_metrics_to_parent, metrics_name_prefix, limits, os_sandbox, deterministic, schema_inference, rank_mini_batch_count
job.yaml:23: description: found nothing; expected a text, or leave the key out
job.yaml:24: entry_script_digest: found "abc"; expected sha256: and 64 hexadecimal digits
"#);
}

#[test]
fn invalid_yaml() {
    insta::assert_snapshot!(errors("a: b: c\n"), @r#"job.yaml:1: not valid YAML (column 5): mapping values are not allowed in this context; text that contains ": " must be in quotes"#);
    insta::assert_snapshot!(errors("entry_script: x\n\tinputs: y\n"), @"job.yaml:1: not valid YAML (column 15): while scanning a plain scalar, found a tab; indent with spaces, not with tabs");
    insta::assert_snapshot!(errors("inputs: [\n"), @"job.yaml:2: not valid YAML (column 1): while parsing a node, did not find expected node content");
    insta::assert_snapshot!(errors("inputs: {a: {path: *.png}}\n"), @"job.yaml:1: not valid YAML (column 20): while parsing node, found unknown anchor; text that starts with * must be in quotes");
    insta::assert_snapshot!(errors("arguments: [--a, ${{inputs.a}}]\n"), @r#"job.yaml:1: not valid YAML (column 19): while parsing a flow sequence, expected ',' or ']'; between [ ] or { } a reference must be in quotes: "${{inputs.name}}""#);
}

#[test]
fn files_of_the_wrong_shape() {
    insta::assert_snapshot!(errors(""), @"job.yaml: is empty; a job file needs at least entry_script and inputs");
    insta::assert_snapshot!(errors("# nothing\n"), @"job.yaml: is empty; a job file needs at least entry_script and inputs");
    insta::assert_snapshot!(errors("---\n...\n"), @"job.yaml: is empty; a job file needs at least entry_script and inputs");
    insta::assert_snapshot!(errors("null"), @"job.yaml: is empty; a job file needs at least entry_script and inputs");
    insta::assert_snapshot!(errors("- a\n- b\n"), @"job.yaml:1: found a list; expected a map of settings (e.g. entry_script: script.wasm)");
    insta::assert_snapshot!(errors("hello"), @"job.yaml:1: found one value; expected a map of settings (e.g. entry_script: script.wasm)");
    insta::assert_snapshot!(errors("a: 1\n---\nb: 2\n"), @"job.yaml:2: a second document starts here; a job file holds one job");
    insta::assert_snapshot!(errors("name: a\nlimits: {fuel: 1, fuel: 2}\nname: b\n"), @"
    job.yaml: entry_script: missing; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml: inputs: missing; name at least one in the file (inputs: {images: data}), or by --set inputs.images.path=data
    job.yaml:2: limits.fuel: given twice; first on line 2
    job.yaml:3: name: given twice; first on line 1
    ");
    insta::assert_snapshot!(errors("[a, b]: 1\nname: !secret x\n"), @"
    job.yaml: entry_script: missing; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml: inputs: missing; name at least one in the file (inputs: {images: data}), or by --set inputs.images.path=data
    job.yaml:1: found a list for a key; a key must be text
    job.yaml:2: name: the tag !secret is not supported; remove it
    ");
}

#[test]
fn files_that_cannot_be_read() {
    let fixture = SpecFixture::new();
    let dir = fixture.0.path();
    let error = |path: &str| {
        let error = load_plain(&dir.join(path), &[]).expect_err("not readable");
        fixture.redact(&error.to_string())
    };
    insta::assert_snapshot!(error("missing.yaml"), @"[dir]/missing.yaml: there is no such file");
    insta::assert_snapshot!(error("data"), @"[dir]/data: is a folder; name the job file in it");
    insta::assert_snapshot!(fixture.load(b"name: \xff\xfe", &[]).expect_err("not UTF-8"), @"job.yaml: is not text in UTF-8 (byte 7); save it as UTF-8");
    let huge = format!("{LEAST}#{}", "x".repeat(1 << 20));
    insta::assert_snapshot!(fixture.load(huge, &[]).expect_err("too large"), @"job.yaml: is larger than 1 MB, the limit for a job file");
}

#[test]
fn missing_keys() {
    insta::assert_snapshot!(errors("name: x\n"), @"
    job.yaml: entry_script: missing; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml: inputs: missing; name at least one in the file (inputs: {images: data}), or by --set inputs.images.path=data
    ");
    insta::assert_snapshot!(errors("entry_script: []\ninputs: 5\n"), @"
    job.yaml:1: entry_script: found a list; expected a path to a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml:2: inputs: found 5; expected a map of names to paths (e.g. images: data/*.png)
    ");
    insta::assert_snapshot!(errors("entry_script: '  '\ninputs: {}\n"), @"
    job.yaml:1: entry_script: found an empty text; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    job.yaml:2: inputs: found none; name at least one (e.g. images: data)
    ");
    insta::assert_snapshot!(errors("entry_script: script.wasm\ninputs: []\n"), @"job.yaml:2: inputs: found none; name at least one (e.g. images: data)");
}

/// Rules C1 and C2 in docs/parallel-run-step.md: a missing path and a wrong kind of file are separate errors,
/// and each names the value.
#[test]
fn entry_scripts_and_sources() {
    insta::assert_snapshot!(errors("entry_script: score.py\ninputs: {a: data}\n"), @"job.yaml:1: entry_script: there is no [dir]/score.py; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)");
    insta::assert_snapshot!(errors("entry_script: empty\ninputs: {a: data}\n"), @"job.yaml:1: entry_script: [dir]/empty is a folder with no Cargo.toml and no sources in C; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)");
    insta::assert_snapshot!(errors(
        "entry_script: x.wasm\nsource_directory: nowhere\ninputs: {a: data}\n"
    ), @"job.yaml:2: source_directory: there is no [dir]/nowhere");
    insta::assert_snapshot!(errors(
        "entry_script: x.wasm\nsource_directory: script.wasm\ninputs: {a: data}\n"
    ), @"job.yaml:2: source_directory: [dir]/script.wasm is not a folder; name the folder with the entry script");
    insta::assert_snapshot!(errors(
        "entry_script: script.wasm\nsource_directory: source\ninputs: {a: data}\n"
    ), @"job.yaml:1: entry_script: there is no [dir]/source/script.wasm; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)");
    let trimmed = job("entry_script: '  script.wasm '\ninputs: {images: data}\n");
    assert_eq!(trimmed, job(LEAST));
}

/// C7, C21: a job has one or more inputs, all of one kind, and a mini-batch size that fits this kind.
#[test]
fn inputs_that_do_not_fit() {
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
mini_batch_size: 1 MB
schema_inference: full
inputs:
  a: {path: data, delimiter: ";", schema: {x: int}}
  b: {path: data, format: csv}
  c: [data]
"#), @r#"
    job.yaml:6: inputs.a.schema.x: found "int"; expected one of boolean, int64, uint64, float64, string, date, timestamp, json; did you mean int64?
    job.yaml:6: inputs.a.delimiter: is for inputs of format csv or tsv only, and input a is of format files; add its format (e.g. format: csv), or remove this key
    job.yaml:6: inputs.a.schema: is for inputs of format csv, tsv or jsonl only, and input a is of format files; add its format (e.g. format: csv), or remove this key
    job.yaml:7: inputs.b.format: is of format csv, but input a is of format files; the inputs of a job must all be files, or all tables
    job.yaml:8: inputs.c: found a list; expected a path, or a map with path
    "#);
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
mini_batch_size: 1 MB
inputs:
  - {name: a, path: "ftp://example.org/a.csv"}
  - {name: a, path: ""}
  - {path: data}
  - data
  - {name: b, paths: []}
  - {name: c, paths: [[x]]}
  - {name: d, path: x, header: maybe, delimiter: "\"", null_values: NA, schema: []}
"#), @r#"
    job.yaml:3: mini_batch_size: found "1 MB"; expected a whole number of files of at least 1 (e.g. 10); sizes are for tables, such as inputs of format csv
    job.yaml:5: inputs[0].path: found an address of "ftp"; expected s3://bucket/path, az://container/path, gs://bucket/path, https://server/path or datastore://NAME/path
    job.yaml:6: inputs[1].name: found "a" a second time; names must differ
    job.yaml:6: inputs[1].path: found ""; expected a file, a folder or a glob
    job.yaml:7: inputs[2].name: missing; each item of the list needs a name
    job.yaml:8: inputs[3]: found "data"; expected a map with name and path
    job.yaml:9: inputs[4].paths: found an empty list; name at least one file, folder or glob
    job.yaml:10: inputs[5].paths[0]: found a list; expected a text or a number
    job.yaml:11: inputs[6].delimiter: found "\""; expected one ASCII character, such as "," or ";", or tab
    job.yaml:11: inputs[6].header: found "maybe"; expected true or false
    job.yaml:11: inputs[6].null_values: found "NA"; expected a list of texts (e.g. [NA, "-"])
    job.yaml:11: inputs[6].schema: found a list; expected a map of column names to types, in the order of the file (e.g. id: int64)
    "#);
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
mini_batch_size: some
inputs:
  a: {path: data, format: csv, name: b, schema: {x: int}}
  b: {path: data, format: csv, delimiter: ";;", schema: {"": int64, y: strnig, z: blob, w: [x]}}
  c: {path: data, format: json, schema: {}}
"#), @r#"
    job.yaml:3: mini_batch_size: found "some"; expected a size of at least 1 byte (e.g. 1 MB) or a number of rows (e.g. 1000 rows), because the inputs are tables; units are KB, MB, GB and TB (powers of 1024), also written K or KiB
    job.yaml:5: inputs.a.name: remove it; the name is already "a", the key above
    job.yaml:6: inputs.b.delimiter: found ";;"; expected one ASCII character, such as "," or ";", or tab
    job.yaml:6: inputs.b.schema.w: found a list; expected a text or a number
    job.yaml:6: inputs.b.schema.y: found "strnig"; expected one of boolean, int64, uint64, float64, string, date, timestamp, json; did you mean string?
    job.yaml:6: inputs.b.schema.z: found "blob"; expected one of boolean, int64, uint64, float64, string, date, timestamp, json
    job.yaml:6: inputs.b.schema: column 1 has an empty name
    job.yaml:7: inputs.c.format: found "json"; expected files, csv, tsv, jsonl, parquet, arrow or sqlite
    job.yaml:7: inputs.c.schema: found an empty map; name columns, or leave the key out
    "#);
}

#[test]
fn invalid_csv_dialects() {
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
inputs:
  a: {path: data, format: csv, quote: x, escape: '""', comment: ' ', skip_lines: -1, duplicate_names: keep}
  b: {path: data, format: csv, quote: ",", escape: none}
  c: {path: data, format: csv, escape: '\', comment: '\'}
  d: {path: data, format: csv, delimiter: "'", quote: "'"}
  e: {path: data, format: tsv, comment: '"'}
  f: {path: data, format: csv, header: false, duplicate_names: rename}
  g: {path: data, format: jsonl, quote: none, escape: '\', comment: '#', skip_lines: 1, duplicate_names: refuse}
  h: {path: data, format: csv, escape: '"', quote: none, comment: '#', skip_lines: 0, duplicate_names: refuse}
  i: {path: data, format: csv, escape: '"', delimiter: ;, comment: ;}
"#), @r##"
    job.yaml:4: inputs.a.quote: found "x"; expected one ASCII character other than a letter, digit, blank, +, - or . (e.g. "'"), or none
    job.yaml:4: inputs.a.escape: found "\"\""; expected one ASCII character other than a letter, digit, blank, +, - or . (e.g. '\')
    job.yaml:4: inputs.a.comment: found " "; expected one ASCII character other than a letter, digit, blank, +, - or . (e.g. "#")
    job.yaml:4: inputs.a.skip_lines: found -1; expected a whole number of lines from 0 up (e.g. 3)
    job.yaml:4: inputs.a.duplicate_names: found "keep"; expected refuse or rename
    job.yaml:5: inputs.b.escape: found "none"; expected one ASCII character other than a letter, digit, blank, +, - or . (e.g. '\')
    job.yaml:5: inputs.b.quote: found ",", which is the delimiter; choose another character
    job.yaml:6: inputs.c.comment: found "\\", which is the escape; choose another character
    job.yaml:7: inputs.d.quote: found "'", which is the delimiter; choose another character
    job.yaml:8: inputs.e.comment: found "\"", which is the quote; choose another character
    job.yaml:9: inputs.f.duplicate_names: is for files with a header, but header is false; remove one of them
    job.yaml:10: inputs.g.quote: is for inputs of format csv or tsv only, and input g is of format jsonl; remove this key
    job.yaml:10: inputs.g.escape: is for inputs of format csv or tsv only, and input g is of format jsonl; remove this key
    job.yaml:10: inputs.g.comment: is for inputs of format csv or tsv only, and input g is of format jsonl; remove this key
    job.yaml:10: inputs.g.skip_lines: is for inputs of format csv or tsv only, and input g is of format jsonl; remove this key
    job.yaml:10: inputs.g.duplicate_names: is for inputs of format csv or tsv only, and input g is of format jsonl; remove this key
    job.yaml:12: inputs.i.comment: found ";", which is the delimiter; choose another character
    "##);
}

/// If the format is unknown, settings that depend on it are not checked.
#[test]
fn an_unknown_format_is_the_only_error() {
    let reported = errors(
        "entry_script: script.wasm\nmini_batch_size: 16 MB\nschema_inference: full\n\
         inputs: {a: {path: data, format: parq, columns: [x]}}\n",
    );
    insta::assert_snapshot!(reported, @r#"job.yaml:4: inputs.a.format: found "parq"; expected files, csv, tsv, jsonl, parquet, arrow or sqlite"#);
}

#[test]
fn keys_of_other_formats() {
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
inputs:
  a: {path: data, format: jsonl, delimiter: ";", header: true, null_values: [x], schema: {x: int64}}
  b: {path: data, format: parquet, schema: {x: int64}, columns: [x], hive: false}
  c: {path: data, format: arrow, columns: [], files: true}
  d: {path: data, format: tsv, schema: {id: int64, width: float64}, columns: [width, wdith, width]}
  e: {path: data, format: csv, hive: true, partition_format: "{a}/{b}"}
  f: {path: data, format: csv, columns: id}
"#), @r#"
    job.yaml:4: inputs.a.delimiter: is for inputs of format csv or tsv only, and input a is of format jsonl; remove this key
    job.yaml:4: inputs.a.header: is for inputs of format csv or tsv only, and input a is of format jsonl; remove this key
    job.yaml:4: inputs.a.null_values: is for inputs of format csv or tsv only, and input a is of format jsonl; remove this key
    job.yaml:5: inputs.b.schema: is for inputs of format csv, tsv or jsonl only, and input b is of format parquet; remove this key
    job.yaml:6: inputs.c.files: is for inputs of format parquet only, and input c is of format arrow; remove this key
    job.yaml:6: inputs.c.columns: found an empty list; name at least one column, or leave the key out
    job.yaml:7: inputs.d.columns[1]: found "wdith", which is not in schema; did you mean "width"?
    job.yaml:7: inputs.d.columns[2]: found "width" a second time; remove it
    job.yaml:8: inputs.e.hive: found together with partition_format, which already names the columns of the path; choose one, and remove the other
    job.yaml:9: inputs.f.columns: found "id"; expected a list of names of columns (e.g. [id, width])
    "#);
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
inputs: {a: {path: data, columns: [x], files: true, hive: true}}
"#), @"
    job.yaml:3: inputs.a.columns: is for tables only, and input a is of format files; add its format (e.g. format: csv), or remove this key
    job.yaml:3: inputs.a.hive: is for tables only, and input a is of format files; add its format (e.g. format: csv), or remove this key
    job.yaml:3: inputs.a.files: is for inputs of format parquet only, and input a is of format files; add format: parquet, or remove this key
    ");
}

/// M3: errors in `table` and `query`.
#[test]
fn databases_need_a_table_or_a_query() {
    insta::assert_snapshot!(errors(r#"
entry_script: script.wasm
inputs:
  a: {path: data, format: sqlite}
  b: {path: data, format: sqlite, table: t, query: select 1}
  c: {path: data, format: sqlite, query: " ", schema: {x: int64}, header: true}
  d: {path: data, format: parquet, query: select 1}
  e: {path: data, format: sqlite, table: ""}
"#), @r#"
    job.yaml:4: inputs.a: is of format sqlite, but does not say which rows to read; set table to the name of a table, or query to a select statement
    job.yaml:5: inputs.b.query: found together with table; remove one of them
    job.yaml:6: inputs.c.header: is for inputs of format csv or tsv only, and input c is of format sqlite; remove this key
    job.yaml:6: inputs.c.schema: is for inputs of format csv, tsv or jsonl only, and input c is of format sqlite; remove this key
    job.yaml:6: inputs.c.query: found " "; expected a select statement of at most 1000000 bytes, without null characters
    job.yaml:7: inputs.d.query: is for inputs of format sqlite only, and input d is of format parquet; remove this key
    job.yaml:8: inputs.e.table: found ""; expected a table's name
    "#);
}

#[test]
fn mini_batches_fit_the_memory() {
    let text = "entry_script: script.wasm\nmini_batch_size: 600 MB\nlimits: {memory: 512 MB}\n\
                inputs: {a: {path: d, format: csv}}";
    insta::assert_snapshot!(errors(text), @"job.yaml:2: mini_batch_size: found 600 MB, but the entry script must hold a whole mini-batch in 512 MB of memory; choose a smaller size, or raise limits.memory");
}

#[test]
fn small_csv_mini_batches_are_mentioned() {
    let text =
        "entry_script: script.wasm\nmini_batch_size: 10\ninputs: {a: {path: d, format: csv}}";
    insta::assert_snapshot!(super::job(text).notices.join("\n"), @r#"mini_batch_size is 10 bytes: for tables it is a number of bytes, and such a small number makes many small mini-batches; for rows, write "10 rows""#);
}

/// C22: errors in side inputs.
#[test]
fn side_inputs_that_do_not_fit() {
    insta::assert_snapshot!(errors(&format!(r#"{LEAST}
side_inputs:
  file: weights/digits.bin
  gone: nowhere
  a: {{path: weights, mount_path: models}}
  b: {{path: weights, mount_path: /a/../b}}
  c: {{path: weights, mount_path: /inputs/images}}
  d: {{path: weights, mount_path: /}}
  e: {{path: weights, mount_path: /x/y}}
  f: {{path: weights, mount_path: /x}}
  g: {{path: weights, mount_path: /side_inputs/e, mode: ro}}
  e2: {{mount_path: /e2}}
  h: {{path: weights, mount_path: /side_inputs/file/x}}
"#)), @r#"
    job.yaml:6: side_inputs.gone.path: there is no [dir]/nowhere; name a folder or a file
    job.yaml:7: side_inputs.a.mount_path: found "models"; expected an absolute path without empty, . or .. parts (e.g. /models/digits)
    job.yaml:8: side_inputs.b.mount_path: found "/a/../b"; expected an absolute path without empty, . or .. parts (e.g. /models/digits)
    job.yaml:9: side_inputs.c.mount_path: found "/inputs/images"; /inputs is one of the entry script's own folders: choose a path outside /inputs, /output, /logs, /source
    job.yaml:10: side_inputs.d.mount_path: found "/"; expected an absolute path without empty, . or .. parts (e.g. /models/digits)
    job.yaml:12: side_inputs.f.mount_path: /x and /x/y of side input e overlap; choose another path
    job.yaml:13: side_inputs.g.mode: unknown key; the known keys are name, path, mount_path
    job.yaml:14: side_inputs.e2: has no path; set path to a folder or a file
    job.yaml:15: side_inputs.h.mount_path: /side_inputs/file/x and /side_inputs/file of side input file overlap; choose another path
    "#);
}

/// C18, C24: the first argument starts with "-"; reserved names are refused.
#[test]
fn arguments_and_variables_that_do_not_fit() {
    insta::assert_snapshot!(errors(&format!(r#"{LEAST}
arguments:
  - model
  - --error_threshold=5
  - --partition_keys
  - ${{{{inputs.pictures}}}}
  - ${{{{source}}}}
  - a ${{{{inputs.images
  - [x]
  - "a\0b"
environment_variables:
  A=B: 1
  "": 2
  C: {{a: b}}
  D:
  E: ${{{{outputs.x}}}}
"#)), @r#"
    job.yaml:5: arguments[0]: found "model"; the first argument must start with "-", such as in [--model, digits.bin]
    job.yaml:6: arguments[1]: --error_threshold is a setting of the job: write the key error_threshold in the job file instead
    job.yaml:7: arguments[2]: --partition_keys is a setting of the job: write the key partition_keys in the job file instead
    job.yaml:8: arguments[3]: found the unknown reference ${{inputs.pictures}}; the known references are ${{inputs.images}}, ${{output}}
    job.yaml:9: arguments[4]: found the unknown reference ${{source}}; the known references are ${{inputs.images}}, ${{output}}; to use ${{source}}, set source_directory
    job.yaml:10: arguments[5]: a reference starts with ${{ and does not end; close it with }}
    job.yaml:11: arguments[6]: found a list; expected a text or a number
    job.yaml:12: arguments[7]: a NUL character cannot be passed on; remove it
    job.yaml:14: environment_variables.A=B: found the name "A=B"; a variable's name must not be empty, and must have no = and no NUL in it
    job.yaml:15: environment_variables.: found the name ""; a variable's name must not be empty, and must have no = and no NUL in it
    job.yaml:16: environment_variables.C: found a map; expected a text or a number
    job.yaml:17: environment_variables.D: found nothing; expected a text or a number
    job.yaml:18: environment_variables.E: found the unknown reference ${{outputs.x}}; the known references are ${{inputs.images}}, ${{output}}
    "#);
    insta::assert_snapshot!(errors(&format!("{LEAST}arguments: --x 1\nenvironment_variables: [A]")), @r#"
job.yaml:3: arguments: found "--x 1"; expected a list of texts and numbers (e.g. [--model, digits.bin])
job.yaml:4: environment_variables: found a list; expected a map of names to texts (e.g. MODE: fast)
"#);
}

/// C14, C23: characters that an output file's name must not have.
#[test]
fn output_names() {
    let error = |name: &str| errors(&format!("{LEAST}append_row_file_name: {name}\n"));
    insta::assert_snapshot!(error("a/b.txt"), @r#"job.yaml:3: append_row_file_name: found "a/b.txt" with '/' in it; a file name must have none of ~ " # % & * : < > ? / \ { | }"#);
    insta::assert_snapshot!(error("'..'"), @r#"job.yaml:3: append_row_file_name: found ".."; expected a file name of 1 to 255 bytes"#);
    for bad in ["~", "\\\"", "#", "%", "&", "*", ":", "<", ">", "?", "/", "\\\\", "{", "|", "}"] {
        assert!(error(&format!("\"a{bad}b\"")).contains("in it"), "{bad}");
    }
    insta::assert_snapshot!(errors(&format!("{LEAST}output: script.wasm\n")), @"job.yaml:3: output: [dir]/script.wasm is a file; name a folder");
}

#[test]
fn names_of_other_systems_lead_to_ours() {
    insta::assert_snapshot!(errors(&format!(
        "{LEAST}max_concurrency_per_instance: 2\nretry_settings: {{}}\nmax_retries: 2\n\
         output_file_name: x\nmemory: 1 GB\nheader: true\n"
    )), @"
    job.yaml:3: max_concurrency_per_instance: unknown key; use process_count_per_node
    job.yaml:4: retry_settings: unknown key; use run_max_try (which also counts the first attempt) and run_invocation_timeout
    job.yaml:5: max_retries: unknown key; use run_max_try (which also counts the first attempt)
    job.yaml:6: output_file_name: unknown key; use append_row_file_name
    job.yaml:7: memory: unknown key; use limits.memory
    job.yaml:8: header: unknown key; use output_format.header
    ");
}

#[test]
fn misspelt_names_of_other_systems_lead_to_ours() {
    insta::assert_snapshot!(
        errors(&format!("{LEAST}proces_count: 3\ntimeuot: 5\n")),
        @r"
        job.yaml:3: proces_count: unknown key; did you mean process_count_per_node?
        job.yaml:4: timeuot: unknown key; did you mean run_invocation_timeout?
        "
    );
}

#[test]
fn errors_of_set_name_the_key() {
    insta::assert_snapshot!(errors_with(
        LEAST,
        &[
            ("mini_batch_size", "ten"),
            ("limits", "{memory: 1x, dsk: 5}"),
            ("limtis.memory", "5"),
            ("run_max_try.x", "5"),
            ("inputs[0].path", "x"),
            ("name..x", "5"),
            ("arguments", "[--a"),
            ("inputs.more.pth", "x"),
            ("output", "{a: b: c"),
        ],
    ), @r#"
    --set arguments: not valid YAML (column 1): while parsing a flow sequence, expected ',' or ']'
    --set inputs.more.pth: inputs.more: has no path; set path to a file, a folder or a glob, or dataset to a registered name
    --set inputs.more.pth: unknown key; did you mean path?
    --set inputs[0].path: inputs is a map and has no [0]; write inputs.NAME
    --set limits: limits.memory: found "1x"; expected a size of at least 64 KB (e.g. 512 MB); units are KB, MB, GB and TB (powers of 1024), also written K or KiB
    --set limits: limits.dsk: unknown key; the known keys are memory, stack, fuel, read, results, row, logs, output, files, handles, transfer, models, tensors, mini_batches, reports, failures, copies, job_time
    --set limtis.memory: limtis: unknown key; did you mean limits?
    --set mini_batch_size: found "ten"; expected a whole number of files of at least 1 (e.g. 10)
    --set name..x: is not a key; write a key such as limits.memory
    --set output: not valid YAML (column 6): while parsing a flow mapping, did not find expected ',' or '}'; text that contains ": " must be in quotes
    --set run_max_try.x: run_max_try: found a map; expected a whole number of attempts of at least 1 (e.g. 3)
    "#);
    let list = "entry_script: script.wasm\ninputs: [{name: a, path: data}]\nname: X\n";
    insta::assert_snapshot!(
        errors_with(list, &[("inputs.b.path", "y"), ("logging_level.deep", "z")]), @r#"
job.yaml:3: name: found "X"; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits)
--set inputs.b.path: inputs is a list of 1 without b; write an entry's name, or its number from 0
--set logging_level.deep: logging_level: found a map; expected WARNING, INFO or DEBUG
"#
    );
}
