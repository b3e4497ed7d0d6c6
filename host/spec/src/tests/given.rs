//! Tests of jobs that another machine has read.

use super::{LEAST, SpecFixture};
use crate::{FetchedScript, GivenJob, JobSpec, LoadContext, OperatorPolicy, load_given};
use std::fs;

/// Reads a job with these settings files, removes all files but the data, and reads the job again from its texts.
fn read_twice(text: &str, files: &[(&str, &str)], removed: &[&str]) -> (JobSpec, JobSpec) {
    let fixture = SpecFixture::new();
    let dir = fixture.0.path();
    for (name, content) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    let first = fixture.load(text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    for name in removed.iter().chain(&["job.yaml"]) {
        let path = dir.join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).expect("a folder");
        } else {
            fs::remove_file(path).expect("a file");
        }
    }
    let script = FetchedScript {
        entry_script: Some(dir.join("weights/digits.bin")),
        source_directory: Some(dir.join("weights")),
    };
    let given = GivenJob { text: first.text.clone(), script: script.clone(), component: None };
    let policy = OperatorPolicy::default();
    let again = load_given(&dir.join("job.yaml"), &given, &[], LoadContext::sample(&policy));
    let again = again.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(again.fetched, script);
    (first, JobSpec { fetched: FetchedScript::default(), ..again })
}

#[test]
fn a_job_needs_none_of_its_settings_files() {
    let settings = r#"{"append_row": {"pandas.DataFrame.to_csv": {"sep": ";"}}}"#;
    let name = "parallel_run_step.settings.json";
    let in_crate = format!("guest/{name}");
    let table = "type: mltable\npaths: [{file: ./a.csv}]\ntransformations:\n  - read_delimited: {delimiter: ';'}\n";
    let direct = super::version2::LEAST
        .replace("type: uri_folder, path: data", "type: mltable, mode: direct, path: data");
    let crate_job = LEAST.replace("script.wasm", "guest");
    for (text, files, removed) in [
        (LEAST, &[(name, settings)][..], &["script.wasm", name][..]),
        (LEAST, &[], &["script.wasm"]),
        (&crate_job, &[("guest/Cargo.toml", ""), (&in_crate, settings)], &["guest"]),
        (&direct, &[("data/MLTable", table), ("data/a.csv", "")], &["data/MLTable", "source"]),
        (
            "entry_script: score.py\ninputs: {images: data}\npython: {requirements: needs.txt}\n",
            &[("score.py", ""), ("needs.txt", "numpy==2.0.0\n")],
            &["score.py", "needs.txt"],
        ),
    ] {
        let (first, again) = read_twice(text, files, removed);
        assert_eq!(first, again, "{text}");
        assert_eq!(first.text.text, text);
    }
}

/// If the entry script was not fetched, it must be at its path.
#[test]
fn an_entry_script_that_was_not_fetched_must_be_there() {
    let fixture = SpecFixture::new();
    let spec = fixture.load(LEAST, &[]).expect("a job");
    let dir = fixture.0.path();
    fs::remove_file(dir.join("script.wasm")).expect("a file");
    let given = GivenJob { text: spec.text, script: FetchedScript::default(), component: None };
    let policy = OperatorPolicy::default();
    let errors = load_given(&dir.join("job.yaml"), &given, &[], LoadContext::sample(&policy));
    let errors = fixture.redact(&errors.expect_err("no entry script").to_string());
    assert!(
        errors.starts_with("job.yaml:1: entry_script: there is no [dir]/script.wasm; "),
        "{errors}"
    );
}
