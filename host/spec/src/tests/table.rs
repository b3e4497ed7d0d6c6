//! Tests that the table of keys, the schema, the docs and the loader agree.

use super::{LEAST, SpecFixture, errors, job};
use crate::keys::{INFERENCE, INPUT, JOB, Key, LIMITS, MODEL, OUTPUT_FORMAT, PYTHON, SIDE_INPUT};
use crate::{docs, schema};
use std::fs;
use std::path::Path;

fn repository(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

fn all_keys() -> impl Iterator<Item = &'static Key> {
    let groups = [LIMITS, OUTPUT_FORMAT, INPUT, SIDE_INPUT, MODEL, INFERENCE, PYTHON];
    JOB.iter().chain(groups.into_iter().flatten())
}

#[test]
fn the_checked_in_schema_is_current() {
    let path = repository("docs/job.schema.json");
    let schema = format!("{:#}\n", schema());
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &schema).expect("the schema can be written");
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    assert!(
        parse(&checked_in) == parse(&schema),
        "docs/job.schema.json is old; run this test with BLESS=1"
    );
}

/// The tables of the docs are between two markers, and match the table of keys.
#[test]
fn the_tables_of_the_docs_are_current() {
    let mut parts = docs();
    for file in ["docs/job-file.md", "docs/security.md"] {
        let path = repository(file);
        let written = fs::read_to_string(&path).expect("the docs are there");
        let mut text = written.clone();
        parts.retain(|(name, part)| {
            let begin = format!("<!-- begin: {name} -->\n");
            let end = format!("<!-- end: {name} -->\n");
            let Some((before, rest)) = text.split_once(&begin) else { return true };
            let (_, after) = rest.split_once(&end).expect("a part of the docs has an end");
            text = [before, &begin, part, &end, after].concat();
            false
        });
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &text).expect("the docs can be written");
        } else {
            assert!(text == written, "{file} is old; run this test with BLESS=1");
        }
    }
    assert!(parts.is_empty(), "no docs have the parts {parts:?}");
}

/// A correct job file with the given text for one key.
fn with(key: &str, text: &str) -> String {
    let mut job = String::new();
    for (name, line) in [
        ("entry_script", "entry_script: script.wasm\n"),
        ("source_directory", ""),
        ("inputs", "inputs: {images: {path: data, format: csv}}\n"),
        ("side_inputs", "side_inputs: {model: weights}\n"),
        ("mini_batch_size", ""),
    ] {
        if name != key {
            job.push_str(line);
        }
    }
    job.push_str(text);
    job
}

#[test]
fn every_key_of_the_table_is_accepted_with_its_example() {
    let fixture = SpecFixture::new();
    fs::write(fixture.0.path().join("source/script.wasm"), b"").expect("a file");
    let mut files = Vec::new();
    for key in JOB {
        let mut text = with(key.name, &format!("{}: {}\n", key.name, key.example));
        if key.name.ends_with("_to_parent") {
            text.push_str("parent: jobs\n");
        }
        if key.name == "job_store" {
            text.push_str("output: results\n");
        }
        files.push((key.name, text));
    }
    for key in OUTPUT_FORMAT {
        let text = format!("output_format: {{{}: {}}}\n", key.name, key.example);
        files.push((key.name, with("output_format", &text)));
    }
    for key in LIMITS {
        let text = format!("limits: {{{}: {}}}\n", key.name, key.example);
        files.push((key.name, with("limits", &text)));
    }
    // Registered names are tested in `registered`.
    for key in INPUT.iter().filter(|key| key.name != "dataset") {
        let path = if key.name.starts_with("path") { "" } else { "path: data, " };
        let format = match key.name {
            "format" => "",
            "table" | "query" => "format: sqlite, ",
            "files" => "format: parquet, ",
            _ => "format: csv, ",
        };
        let name = if key.name == "name" { "" } else { "name: x, " };
        let text = format!("inputs: [{{{path}{format}{name}{}: {}}}]\n", key.name, key.example);
        files.push((key.name, with("inputs", &text)));
    }
    for key in SIDE_INPUT {
        let path = if key.name == "path" { "" } else { "path: weights, " };
        let name = if key.name == "name" { "" } else { "name: x, " };
        let text = format!("side_inputs: [{{{path}{name}{}: {}}}]\n", key.name, key.example);
        files.push((key.name, with("side_inputs", &text)));
    }
    for folder in ["models", "versions/2"] {
        fs::create_dir_all(fixture.0.path().join(folder)).expect("a folder");
    }
    for file in ["models/digits.onnx", "versions/2/model.onnx"] {
        fs::write(fixture.0.path().join(file), b"").expect("a file");
    }
    for key in MODEL.iter().filter(|key| key.name != "model") {
        let path = match key.name {
            "path" => "",
            "version" => "path: versions, ",
            _ => "path: digits.onnx, ",
        };
        let name = if key.name == "name" { "" } else { "name: x, " };
        let text = format!("models: [{{{path}{name}{}: {}}}]\n", key.name, key.example);
        files.push((key.name, with("models", &text)));
    }
    for key in INFERENCE {
        let text = format!("inference: {{{}: {}}}\n", key.name, key.example);
        files.push((key.name, with("inference", &text)));
    }
    for (key, text) in files {
        if let Err(errors) = fixture.load(&text, &[]) {
            panic!("{key}: {errors}\n{text}");
        }
    }
}

/// The schema is made from the table. This test checks that the schema has every key.
#[test]
fn every_key_is_in_the_schema_and_in_the_docs() {
    let schema = schema().to_string();
    let docs = fs::read_to_string(repository("docs/job-file.md")).expect("the docs are there");
    for key in all_keys() {
        assert!(schema.contains(&format!("\"{}\":{{", key.name)), "{} in the schema", key.name);
        assert!(docs.contains(&format!("`{}`", key.name)), "`{}` in docs/job-file.md", key.name);
    }
}

#[test]
fn the_schema_gives_the_defaults_of_the_default_job_file() {
    let schema = schema();
    let default =
        |pointer: &str| schema.pointer(&format!("/properties/{pointer}/default")).cloned();
    assert_eq!(default("error_threshold"), Some(0.into()));
    assert_eq!(default("append_row_file_name"), Some("parallel_run_step.txt".into()));
    assert_eq!(default("limits/properties/memory"), Some("1 GB".into()));
    assert_eq!(default("mini_batch_size"), None);
}

/// Every YAML block in the docs loads, if it is a whole job file.
#[test]
fn the_job_files_in_the_docs_load() {
    let docs = fs::read_to_string(repository("docs/job-file.md")).expect("the docs are there");
    let whole: Vec<&str> = docs
        .split("```yaml\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .filter(|block| block.contains("entry_script: script.wasm"))
        .collect();
    assert!(whole.len() >= 3, "the docs show whole job files");
    for block in whole {
        job(block);
    }
}

#[test]
fn the_schema_accepts_what_the_loader_accepts() {
    job("$schema: ./job.schema.json\nentry_script: script.wasm\ninputs: {a: data}\n\
         logging_level: info\nrun_max_try: \"3\"\nenvironment: x\n");
    let schema = schema();
    let schema_at = |pointer: &str| schema.pointer(&format!("/properties/{pointer}")).cloned();
    let level = schema_at("logging_level/anyOf/1/pattern").expect("a pattern");
    let level = regex::Regex::new(level.as_str().expect("text")).expect("a regex");
    assert!(level.is_match("info") && level.is_match("INFO") && !level.is_match("infos"));
    assert_eq!(schema_at("run_max_try/anyOf/1/type"), Some("string".into()));
    assert_eq!(schema_at("node_count/anyOf/0/maximum"), Some(1000.into()));
    for key in ["$schema", "environment", "parallel_run_config"] {
        assert!(schema_at(key).is_some(), "{key}");
    }
}

/// The expected value of each key, as its error gives it.
#[test]
fn every_key_says_what_it_expects() {
    let with_names =
        [("limits", LIMITS), ("output_format", OUTPUT_FORMAT), ("inference", INFERENCE)];
    let groups = with_names.map(|(group, keys)| {
        let nulls: Vec<String> = keys.iter().map(|key| format!("  {}:\n", key.name)).collect();
        format!("{group}:\n{}", nulls.concat())
    });
    insta::assert_snapshot!(errors(&format!("{LEAST}{}", groups.concat())), @r#"
    job.yaml:4: limits.memory: found nothing; expected a size of at least 64 KB (e.g. 512 MB), or leave the key out
    job.yaml:5: limits.stack: found nothing; expected a size from 64 KB to 64 MB (e.g. 1 MB), or leave the key out
    job.yaml:6: limits.fuel: found nothing; expected a whole number of at least 1 (e.g. 10000000000), or leave the key out
    job.yaml:7: limits.read: found nothing; expected a size of at least 1 byte (e.g. 512 MB), or leave the key out
    job.yaml:8: limits.results: found nothing; expected a size of at least 1 byte (e.g. 256 MB), or leave the key out
    job.yaml:9: limits.row: found nothing; expected a size of at least 1 byte (e.g. 64 MB), or leave the key out
    job.yaml:10: limits.logs: found nothing; expected a size of at least 1 byte (e.g. 256 MB), or leave the key out
    job.yaml:11: limits.output: found nothing; expected a size of at least 1 byte (e.g. 16 GB), or leave the key out
    job.yaml:12: limits.files: found nothing; expected a whole number of files from 0 up (e.g. 10000), or leave the key out
    job.yaml:13: limits.handles: found nothing; expected a whole number from 16 to 1000000 (e.g. 10000), or leave the key out
    job.yaml:14: limits.transfer: found nothing; expected a size of at least 1 MB (e.g. 128 MB), or leave the key out
    job.yaml:15: limits.models: found nothing; expected a size of at least 1 MB (e.g. 1 GB), or leave the key out
    job.yaml:16: limits.tensors: found nothing; expected a size of at least 1 MB (e.g. 256 MB), or leave the key out
    job.yaml:17: limits.mini_batches: found nothing; expected a whole number of at least 1 (e.g. 1000000), or leave the key out
    job.yaml:18: limits.reports: found nothing; expected a size of at least 1 MB (e.g. 10 GB), or leave the key out
    job.yaml:19: limits.failures: found nothing; expected a whole number of failures from 0 up (e.g. 10000), or leave the key out
    job.yaml:20: limits.copies: found nothing; expected a size (e.g. 16 GB), or leave the key out
    job.yaml:21: limits.job_time: found nothing; expected seconds, more than 0 and at most 31536000 (e.g. 86400), or leave the key out
    job.yaml:23: output_format.type: found nothing; expected text, csv, jsonl, parquet or arrow, or leave the key out
    job.yaml:24: output_format.compression: found nothing; expected none, gzip or zstd for lines of text; none, snappy, zstd, gzip or lz4 for parquet, or leave the key out
    job.yaml:25: output_format.delimiter: found nothing; expected one ASCII character, such as "," or ";", or tab, or leave the key out
    job.yaml:26: output_format.header: found nothing; expected true or false, or leave the key out
    job.yaml:27: output_format.quoting: found nothing; expected minimal, all, nonnumeric or none, or leave the key out
    job.yaml:28: output_format.null_value: found nothing; expected a text, or leave the key out
    job.yaml:30: inference.allow_guest_models: found nothing; expected true or false, or leave the key out
    job.yaml:31: inference.threads: found nothing; expected a whole number of threads from 1 to 64, or leave the key out
    job.yaml:32: inference.gpu_memory: found nothing; expected a size of at least 1 MB (e.g. 4 GB), or leave the key out
    "#);
    let nulls: Vec<String> = JOB.iter().map(|key| format!("{}:\n", key.name)).collect();
    insta::assert_snapshot!(errors(&nulls.concat()), @"
    job.yaml:1: name: found nothing; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits), or leave the key out
    job.yaml:2: description: found nothing; expected a text, or leave the key out
    job.yaml:3: tenant: found nothing; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits), or leave the key out
    job.yaml:4: entry_script: found nothing; expected a path to a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts), or leave the key out
    job.yaml:5: entry_script_digest: found nothing; expected sha256: and 64 hexadecimal digits, or leave the key out
    job.yaml:6: source_directory: found nothing; expected a path to a folder, or leave the key out
    job.yaml:7: python: found nothing; expected a map with runtime, or leave the key out
    job.yaml:8: inputs: found nothing; expected a map of names to paths (e.g. images: data/*.png), or leave the key out
    job.yaml:9: side_inputs: found nothing; expected a map of names to folders (e.g. model: weights), or leave the key out
    job.yaml:10: models: found nothing; expected a map of names to paths (e.g. digits: models/digits.onnx), or leave the key out
    job.yaml:11: inference: found nothing; expected a map with allow_guest_models, threads or gpu_memory, or leave the key out
    job.yaml:12: output: found nothing; expected a path to a folder, or leave the key out
    job.yaml:13: job_store: found nothing; expected a path to a folder, or an address in a store, or leave the key out
    job.yaml:14: arguments: found nothing; expected a list of texts and numbers (e.g. [--model, digits.bin]), or leave the key out
    job.yaml:15: pass_settings: found nothing; expected true or false, or leave the key out
    job.yaml:16: environment_variables: found nothing; expected a map of names to texts (e.g. MODE: fast), or leave the key out
    job.yaml:17: mini_batch_size: found nothing; expected a whole number of files of at least 1 (e.g. 10); for tables a size (e.g. 1 MB) or rows (e.g. 1000 rows), or leave the key out
    job.yaml:18: partition_keys: found nothing; expected a list of texts (e.g. [store, brand]), or leave the key out
    job.yaml:19: process_count_per_node: found nothing; expected a whole number of workers from 1 to 1000 (e.g. 4), or leave the key out
    job.yaml:20: gpus: found nothing; expected a whole number of GPUs from 0 to 1000 (e.g. 2), or leave the key out
    job.yaml:21: node_count: found nothing; expected a whole number of machines from 1 to 1000 (e.g. 4), or leave the key out
    job.yaml:22: allow_mixed_backends: found nothing; expected true or false, or leave the key out
    job.yaml:23: output_action: found nothing; expected append_row or summary_only, or leave the key out
    job.yaml:24: append_row_file_name: found nothing; expected a file name (e.g. digits.txt), or leave the key out
    job.yaml:25: output_format: found nothing; expected text, csv, jsonl, parquet or arrow, or a map with type, compression, delimiter, header, quoting or null_value, or leave the key out
    job.yaml:26: append_row_dataframe_header: found nothing; expected true or false, or leave the key out
    job.yaml:27: output_layout: found nothing; expected file or parts, or leave the key out
    job.yaml:28: sample: found nothing; expected a number above 0 and up to 100, in percent (e.g. 1), or leave the key out
    job.yaml:29: ordered: found nothing; expected true or false, or leave the key out
    job.yaml:30: join: found nothing; expected input, or a list of columns of the input (e.g. [id]), or leave the key out
    job.yaml:31: output_files: found nothing; expected error, append or overwrite, or leave the key out
    job.yaml:32: allow_reuse: found nothing; expected true or false, or leave the key out
    job.yaml:33: error_threshold: found nothing; expected a whole number of items from 0 up, or -1 to ignore all failures, or leave the key out
    job.yaml:34: allowed_failed_count: found nothing; expected a whole number of mini-batches from 0 up, or -1 to ignore all failures, or leave the key out
    job.yaml:35: allowed_failed_percent: found nothing; expected a number from 0 to 100, or leave the key out
    job.yaml:36: strict_cardinality: found nothing; expected true or false, or leave the key out
    job.yaml:37: run_max_try: found nothing; expected a whole number of attempts of at least 1 (e.g. 3), or leave the key out
    job.yaml:38: run_invocation_timeout: found nothing; expected seconds, more than 0 and at most 259200 (e.g. 60), or leave the key out
    job.yaml:39: task_overhead_timeout: found nothing; expected seconds, more than 0 and at most 259200 (e.g. 600), or leave the key out
    job.yaml:40: progress_update_timeout: found nothing; expected seconds, more than 0 and at most 259200 (e.g. 600), or leave the key out
    job.yaml:41: first_task_creation_timeout: found nothing; expected seconds, more than 0 and at most 259200 (e.g. 600), or leave the key out
    job.yaml:42: logging_level: found nothing; expected WARNING, INFO or DEBUG, or leave the key out
    job.yaml:43: resource_monitor_interval: found nothing; expected seconds from 0 (never) to 2147483647 (e.g. 600), or leave the key out
    job.yaml:44: profiling_module: found nothing; expected cProfile, profile or guest, or leave the key out
    job.yaml:45: parent: found nothing; expected a path to a folder, or leave the key out
    job.yaml:46: copy_logs_to_parent: found nothing; expected true or false, or leave the key out
    job.yaml:47: push_metrics_to_parent: found nothing; expected true or false, or leave the key out
    job.yaml:48: metrics_name_prefix: found nothing; expected a text, or leave the key out
    job.yaml:49: limits: found nothing; expected a map with memory, stack, fuel and others, or leave the key out
    job.yaml:50: os_sandbox: found nothing; expected required, best-effort or off, or leave the key out
    job.yaml:51: deterministic: found nothing; expected true or false, or leave the key out
    job.yaml:52: schema_inference: found nothing; expected first or full, or leave the key out
    job.yaml:53: rank_mini_batch_count: found nothing; expected a whole number (e.g. 8), or leave the key out
    ");
}
