//! Untrusted text (keys, paths, names, headers, job directories) never controls an operator's terminal, and
//! never reverses or hides the text of messages or reports.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Job, Ran, guest};
use std::fs;
use std::path::{Path, PathBuf};

/// Sets a title, clears the screen and writes a link. Then come characters that reverse a line, are
/// invisible, or are tags.
const HIDDEN: &str =
    "\u{1b}]0;own\u{7}\u{9b}2J\u{202e}\u{2066}\u{61c}\u{200f}\u{200d}\u{feff}\u{e0041}\u{2028}x";
/// The same characters in a double-quoted YAML string.
const YAML: &str = r"\e]0;own\a\x9b2J\u202E\u2066\u061C\u200F\u200D\uFEFF\U000E0041\u2028x";

fn is_raw(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(
            c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[track_caller]
fn is_clean(what: &str, text: &str) {
    let raw = text.lines().find(|line| line.contains(is_raw));
    assert!(raw.is_none(), "{what}: {raw:?}");
}

/// Checks that no raw character came through, and that an escape shows what was there.
#[track_caller]
fn is_escaped(ran: &Ran) {
    is_clean("stdout", &ran.stdout);
    is_clean("stderr", &ran.stderr);
    let both = format!("{}{}", ran.stdout, ran.stderr);
    assert!(both.contains(r"\u{202e}"), "{ran}");
}

fn job(yaml: &str) -> Job {
    let script = guest("echo_files");
    let head = format!("name: test\nentry_script: {}\n", script.display());
    let inputs = if yaml.contains("inputs:") { "" } else { "inputs: { a: in }\n" };
    Job::empty().file("in/a.txt", "a").file("job.yaml", head + inputs + yaml)
}

#[test]
fn keys_names_and_paths_of_a_job_file_are_escaped() {
    let places = [
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
    for place in places {
        let job = match place {
            "entry_script: \"K\"" => Job::empty()
                .file("in/a.txt", "a")
                .file("job.yaml", format!("name: t\ninputs: in\n{}\n", place.replace('K', YAML))),
            place => job(&format!("{}\n", place.replace('K', YAML))),
        };
        let mut is_shown = false;
        for command in [&["run", "job.yaml", "--job-dir", "job"][..], &["plan", "job.yaml"]] {
            let ran = self::job("").file("job.yaml", fs::read(job.path("job.yaml")).unwrap());
            let ran = ran.command(command);
            is_clean(place, &ran.stdout);
            is_clean(place, &ran.stderr);
            is_shown |= ran.stderr.contains(r"\u{");
        }
        assert!(is_shown, "no message shows {place}");
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
        is_escaped(&ran);
    }
}

#[test]
fn the_header_of_an_input_is_escaped() {
    let table = format!("{HIDDEN},b\n1,2\n");
    let ran = job("inputs: { a: { path: in/t.csv, format: csv } }\n")
        .file("in/t.csv", table)
        .command(&["plan", "job.yaml"]);
    ran.exits_with(0);
    is_escaped(&ran);
}

#[test]
fn names_in_a_component_are_escaped() {
    let path = format!("{HIDDEN}.wasm");
    let component = fs::read(guest("echo_files")).unwrap();
    for command in [&["check", &path][..], &["inspect", &path], &["build", &path]] {
        let ran = Job::empty().file(&path, &component).command(command);
        is_clean("stderr", &ran.stderr);
        // Paths for programs are not escaped.
        if command[0] != "build" {
            ran.exits_with(0);
            is_clean("stdout", &ran.stdout);
        }
    }
    let json = Job::empty().file(&path, &component).command(&["inspect", "--json", &path]);
    json.exits_with(0);
    is_clean("stdout", &json.stdout);
    serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap();
    let name: String = HIDDEN.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let module = format!("(module (import \"{name}\" \"{name}\" (func)))");
    let module = sandmill_tests::wat_module(&module);
    for command in ["inspect", "check"] {
        let ran = Job::empty().file("m.wasm", &module).command(&[command, "m.wasm"]);
        is_clean(command, &ran.stdout);
        is_clean(command, &ran.stderr);
    }
}

/// A file from Azure's tools, with untrusted names of jobs, keys and inputs.
#[test]
fn names_in_an_azure_pipeline_are_escaped() {
    let text = "type: pipeline\ninputs: { \"K\": { type: uri_folder, path: in } }\n\
                jobs:\n  \"K\": { type: parallel, \"K\": 1 }\n  \"KK\": { type: parallel }\n";
    let ran = Job::empty().file("job.yaml", text.replace('K', YAML)).command(&["plan", "job.yaml"]);
    ran.exits_with(2);
    is_escaped(&ran);
}

/// Runs a job over files with such names, and checks its reports. Then puts such a name into its job
/// directory.
#[test]
fn reports_and_foreign_job_directories_are_escaped() {
    let table = format!("{HIDDEN},b\n1,2\n3\n");
    let settings = "inputs: { a: { path: in/, format: csv } }\nerror_threshold: -1\n";
    let ran = Job::new(&guest("echo_table"))
        .yaml(settings)
        .file(&format!("in/{HIDDEN}.csv"), table)
        .run(&[]);
    is_clean("stderr", &ran.stderr);
    let logs = ran.dir().join("job/logs");
    let mut seen = false;
    for file in files_below(&logs) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&logs).unwrap().display().to_string();
        // The guest's own output is not escaped.
        if !name.starts_with("user/std") && !name.starts_with("user/entry_script_log") {
            is_clean(&name, &text);
            seen |= text.contains("202e");
        }
    }
    assert!(seen, "{ran}");
    let state = ran.dir().join("job/job.json");
    let text = fs::read_to_string(&state).unwrap();
    is_clean("job.json", &text);
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["name"] = HIDDEN.into();
    value["output"] = format!("/tmp/{HIDDEN}").into();
    fs::write(&state, serde_json::to_vec(&value).unwrap()).unwrap();
    let mut job = ran.into_job();
    for command in
        [&["status", "job"][..], &["explain", "job"], &["logs", "job"], &["resume", "job"]]
    {
        let ran = job.command(command);
        is_clean("stdout", &ran.stdout);
        is_clean("stderr", &ran.stderr);
        if command[0] == "status" {
            is_escaped(&ran);
        }
        job = ran.into_job();
    }
    let ran = job.command(&["status", "job", "--json"]);
    is_clean("stdout", &ran.stdout);
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
