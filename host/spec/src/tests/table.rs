//! The table of keys, the schema, the docs and the loader say the same.

use super::{Fixture, job};
use crate::keys::{INFERENCE, INPUT, JOB, Key, LIMITS, MODEL, OUTPUT_FORMAT, SIDE_INPUT};
use crate::schema;
use std::fs;
use std::path::Path;

fn repository(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

fn all_keys() -> impl Iterator<Item = &'static Key> {
    let groups = [LIMITS, OUTPUT_FORMAT, INPUT, SIDE_INPUT, MODEL, INFERENCE];
    JOB.iter().chain(groups.into_iter().flatten())
}

#[test]
fn the_checked_in_schema_is_true() {
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

/// A job file that is good but for the named keys, which are added.
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
    let fixture = Fixture::new();
    fs::write(fixture.0.path().join("source/script.wasm"), b"").expect("a file");
    let mut files = Vec::new();
    for key in JOB {
        let mut text = with(key.name, &format!("{}: {}\n", key.name, key.example));
        if key.name.ends_with("_to_parent") {
            text.push_str("parent: jobs\n");
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
    // What is registered is tried in `registered`.
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

/// The schema is made of the table; this holds that nothing of the table is lost on the way.
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

/// Every YAML block in the docs that is a whole job file loads.
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
fn the_schema_takes_what_the_loader_takes() {
    job("$schema: ./job.schema.json\nentry_script: script.wasm\ninputs: {a: data}\n\
         logging_level: info\nrun_max_try: \"3\"\nenvironment: x\n");
    let schema = schema();
    let at = |pointer: &str| schema.pointer(&format!("/properties/{pointer}")).cloned();
    let level = at("logging_level/anyOf/1/pattern").expect("a pattern");
    let level = regex::Regex::new(level.as_str().expect("text")).expect("a regex");
    assert!(level.is_match("info") && level.is_match("INFO") && !level.is_match("infos"));
    assert_eq!(at("run_max_try/anyOf/1/type"), Some("string".into()));
    assert_eq!(at("node_count/anyOf/0/maximum"), Some(1.into()));
    for key in ["$schema", "environment", "parallel_run_config"] {
        assert!(at(key).is_some(), "{key}");
    }
}
