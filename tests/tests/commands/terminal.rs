//! Untrusted text (keys, paths, names, headers, job directories) never controls an operator's terminal, and
//! never reverses or hides text in messages or reports.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, guest};
use std::fs;
use std::path::{Path, PathBuf};

/// Escape sequences that set a terminal's title and clear the screen. Also characters that are tags, are
/// invisible, or reverse a line.
const HIDDEN: &str =
    "\u{1b}]0;own\u{7}\u{9b}2J\u{202e}\u{2066}\u{61c}\u{200f}\u{200d}\u{feff}\u{e0041}\u{2028}x";
/// The characters of `HIDDEN` in a double-quoted YAML string.
const HIDDEN_IN_YAML: &str =
    r"\e]0;own\a\x9b2J\u202E\u2066\u061C\u200F\u200D\uFEFF\U000E0041\u2028x";

/// Whether a character must be escaped in messages and reports.
fn is_raw(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(
            c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Checks that a text has no character that must be escaped.
#[track_caller]
fn assert_clean(source: &str, text: &str) {
    let raw = text.lines().find(|line| line.contains(is_raw));
    assert!(raw.is_none(), "{source}: {raw:?}");
}

/// Checks that the output has no raw character, and that it shows one of them as an escape.
#[track_caller]
fn assert_escaped(ran: &Ran) {
    assert_clean("stdout", &ran.stdout);
    assert_clean("stderr", &ran.stderr);
    let output = format!("{}{}", ran.stdout, ran.stderr);
    assert!(output.contains(r"\u{202e}"), "{ran}");
}

fn job(yaml: &str) -> TestJob {
    let script = guest("echo_files");
    let head = format!("name: test\nentry_script: {}\n", script.display());
    let inputs = if yaml.contains("inputs:") { "" } else { "inputs: { a: in }\n" };
    TestJob::empty().file("in/a.txt", "a").file("job.yaml", head + inputs + yaml)
}

#[test]
fn keys_names_and_paths_of_a_job_file_are_escaped() {
    // In each setting, `HIDDEN` replaces the letter K.
    let settings = [
        "\"K\": 1",
        "limits: { \"K\": 1 }",
        "\"K\": 1\n\"K\": 2",
        "inputs: { \"K\": in }",
        "inputs: { a: { path: in, \"K\": 1 } }",
        "inputs: { a: \"K\" }",
        "inputs: { a: { path: \"in/K*\" } }",
        "inputs: { a: { path: in/a.txt, format: csv, schema: { \"K\": int } } }",
        "side_inputs: { \"K\": in }",
        "side_inputs: { s: \"K\" }",
        "models: { \"K\": m.onnx }",
        "models: { m: \"K\" }",
        "environment_variables: { \"=K\": 1 }",
        "arguments: [ \"${{inputs.K}}\" ]",
        "source_directory: \"K\"",
        "output: \"in/a.txt/K\"",
        "parent: \"in/a.txt/K\"\ncopy_logs_to_parent: true",
        "tenant: \"K\"",
        "partition_keys: [ \"K\" ]",
        "append_row_file_name: \"K\"",
        "entry_script: \"K\"",
    ];
    for setting in settings {
        let job = match setting {
            "entry_script: \"K\"" => TestJob::empty().file("in/a.txt", "a").file(
                "job.yaml",
                format!("name: t\ninputs: in\n{}\n", setting.replace('K', HIDDEN_IN_YAML)),
            ),
            setting => job(&format!("{}\n", setting.replace('K', HIDDEN_IN_YAML))),
        };
        let mut is_shown = false;
        for command in [&["run", "job.yaml", "--job-dir", "job"][..], &["plan", "job.yaml"]] {
            let ran = self::job("").file("job.yaml", fs::read(job.path("job.yaml")).unwrap());
            let ran = ran.command(command);
            assert_clean(setting, &ran.stdout);
            assert_clean(setting, &ran.stderr);
            is_shown |= ran.stderr.contains(r"\u{");
        }
        assert!(is_shown, "no message shows {setting}");
    }
}

/// A key cannot pretend to be another line of the message.
#[test]
fn a_key_stays_on_its_line() {
    let ran = job("\"a\\nerror: all is well\": 1\n").command(&["plan", "job.yaml"]);
    ran.exits_with(2);
    assert!(!ran.stderr.contains("\nerror: all is well"), "{ran}");
    ran.says(r"a\u{a}error: all is well");
}

#[test]
fn command_line_settings_and_arguments_are_escaped() {
    let set = format!("{HIDDEN}=1");
    for command in [
        &["run", "job.yaml", "--set", &set][..],
        &["run", HIDDEN],
        &["plan", HIDDEN],
        &["check", HIDDEN],
        &["inspect", HIDDEN],
        &["build", HIDDEN],
        &["status", HIDDEN],
        &["explain", HIDDEN],
        &["logs", HIDDEN],
        &["resume", HIDDEN],
        &["new", HIDDEN],
        &["run", "job.yaml", "--policy", HIDDEN],
        &["run", "job.yaml", "--datastores", HIDDEN],
        &["dataset", "show", HIDDEN],
        &["run", "job.yaml", "--process-count", HIDDEN],
        &[HIDDEN],
        &["run", &format!("--{HIDDEN}")],
    ] {
        let ran = job("").command(command);
        assert_ne!(ran.code, 0, "{ran}");
        assert_escaped(&ran);
    }
}

#[test]
fn the_header_of_an_input_is_escaped() {
    let table = format!("{HIDDEN},b\n1,2\n");
    let ran = job("inputs: { a: { path: in/t.csv, format: csv } }\n")
        .file("in/t.csv", table)
        .command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    assert_escaped(&ran);
}

#[test]
fn names_in_a_component_are_escaped() {
    let path = format!("{HIDDEN}.wasm");
    let component = fs::read(guest("echo_files")).unwrap();
    for command in [&["check", &path][..], &["inspect", &path], &["build", &path]] {
        let ran = TestJob::empty().file(&path, &component).command(command);
        assert_clean("stderr", &ran.stderr);
        // `build` prints paths for programs, which are not escaped.
        if command[0] != "build" {
            ran.exits_with(0);
            assert_clean("stdout", &ran.stdout);
        }
    }
    let json = TestJob::empty().file(&path, &component).command(&["inspect", "--json", &path]);
    json.exits_with(0);
    assert_clean("stdout", &json.stdout);
    serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap();
    let name: String = HIDDEN.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let module = format!("(module (import \"{name}\" \"{name}\" (func)))");
    let module = sandmill_tests::wat_module(&module);
    for command in ["inspect", "check"] {
        let ran = TestJob::empty().file("m.wasm", &module).command(&[command, "m.wasm"]);
        assert_clean(command, &ran.stdout);
        assert_clean(command, &ran.stderr);
    }
}

/// A file from Azure's tools, with untrusted names of jobs, keys and inputs.
#[test]
fn names_in_an_azure_pipeline_are_escaped() {
    let text = "type: pipeline\ninputs: { \"K\": { type: uri_folder, path: in } }\n\
                jobs:\n  \"K\": { type: parallel, \"K\": 1 }\n  \"KK\": { type: parallel }\n";
    let ran = TestJob::empty()
        .file("job.yaml", text.replace('K', HIDDEN_IN_YAML))
        .command(&["plan", "job.yaml"]);
    ran.exits_with(2);
    assert_escaped(&ran);
}

/// Runs a job with `HIDDEN` in the name and the header of its input file, and checks the reports.
/// Then writes `HIDDEN` into `job.json`, as another user could in a job directory, and runs
/// commands on the directory.
#[test]
fn reports_and_foreign_job_directories_are_escaped() {
    let table = format!("{HIDDEN},b\n1,2\n3\n");
    let settings = "inputs: { a: { path: in/, format: csv } }\nerror_threshold: -1\n";
    let ran = TestJob::new(&guest("echo_table"))
        .yaml(settings)
        .file(&format!("in/{HIDDEN}.csv"), table)
        .run(&[]);
    assert_clean("stderr", &ran.stderr);
    let logs = ran.dir().join("job/logs");
    let mut is_shown = false;
    for file in files_below(&logs) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&logs).unwrap().display().to_string();
        // The guest's own output is not escaped.
        if !name.starts_with("user/std") && !name.starts_with("user/entry_script_log") {
            assert_clean(&name, &text);
            is_shown |= text.contains("202e");
        }
    }
    assert!(is_shown, "{ran}");
    let state = ran.dir().join("job/job.json");
    let text = fs::read_to_string(&state).unwrap();
    assert_clean("job.json", &text);
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["name"] = HIDDEN.into();
    value["output"] = format!("/tmp/{HIDDEN}").into();
    fs::write(&state, serde_json::to_vec(&value).unwrap()).unwrap();
    let mut job = ran.into_job();
    for command in
        [&["status", "job"][..], &["explain", "job"], &["logs", "job"], &["resume", "job"]]
    {
        let ran = job.command(command);
        assert_clean("stdout", &ran.stdout);
        assert_clean("stderr", &ran.stderr);
        if command[0] == "status" {
            assert_escaped(&ran);
        }
        job = ran.into_job();
    }
    let ran = job.command(&["status", "job", "--json"]);
    assert_clean("stdout", &ran.stdout);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["job"], HIDDEN);
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}
