//! What an entry script sees (arguments, variables, folders and names), and where its output and files go.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, cut_denials, guest};

/// A job with the guest `surroundings`, and with every setting that a guest can see.
fn surroundings() -> TestJob {
    TestJob::new(&guest("surroundings"))
        .file("in/a.txt", "")
        .file("weights/w.bin", "")
        .file("more/m.bin", "")
        .file("code/one.txt", "")
        .file("code/two.txt", "")
        .yaml(
            "source_directory: code
inputs: {texts: in}
side_inputs:
  weights: weights
  more: {path: more, mount_path: /models/large}
arguments: [--in, '${{inputs.texts}}', --w, '${{side_inputs.weights}}/w.bin',
  '--m=${{side_inputs.more}}', --out, '${{output}}', --code, '${{source}}', 7, 0.10, 'x y']
environment_variables: {MODE: fast, WEIGHTS: '${{side_inputs.weights}}', NUMBER: 1e3}
process_count_per_node: 1",
        )
}

/// Rules E4, E11, E15, E16, C18, V2, V6 (docs/parallel-run-step.md): the script sees the context, its
/// unchanged arguments, and the values of the helper `EntryScript`.
#[test]
fn an_entry_script_sees_the_settings_of_the_job_file() {
    // The leader's own variables are not passed to guests.
    let ran = surroundings().env("SECRET_OF_THE_LEADER", "1").run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output().trim_end().replace('|', "\n"), @r#"
    /inputs/texts/a.txt
    id=0
    dataset=texts
    attempt=1
    keys=[]
    arguments=["--in", "/inputs/texts", "--w", "/side_inputs/weights/w.bin", "--m=/models/large", "--out", "/output", "--code", "/source", "7", "0.10", "x y"]
    agent_name=process000
    node_id=0
    log_dir=/logs
    output_dir=/output
    source_dir=Some("/source")
    gpu_index=None
    environment=["AZUREML_BI_OUTPUT_PATH=/output", "MODE=fast", "NUMBER=1e3", "WEIGHTS=/side_inputs/weights"]
    root=[]
    source_entries=2
    "#);
}

/// Rules V3, V4, V6: a job file can set the variables that Azure's batch endpoints set for the script of a
/// model.
#[test]
fn variables_of_endpoints_are_set_by_the_job() {
    let ran = surroundings().run(&[
        "--set",
        "environment_variables={AZUREML_MODEL_DIR: '${{side_inputs.weights}}', \
         AZUREML_BI_TEXT_COLUMN: title}",
    ]);
    ran.exits_with(0);
    let output = ran.output();
    let environment =
        output.split('|').find(|fact| fact.starts_with("environment=")).unwrap_or_default();
    assert_snapshot!(environment.trim_end(), @r#"environment=["AZUREML_BI_OUTPUT_PATH=/output", "AZUREML_BI_TEXT_COLUMN=title", "AZUREML_MODEL_DIR=/side_inputs/weights"]"#);
}

/// Rules E16, E17, E18, F14, F15.
#[test]
fn output_of_an_entry_script_goes_to_log_files() {
    let ran = surroundings().run(&["--set", "logging_level=DEBUG"]);
    ran.exits_with(0);
    let stdout = ran.log("user/stdout/0/process000.stdout.txt");
    assert!(stdout.starts_with("init to stdout\nrun 0 attempt 1\n"), "{stdout}");
    assert!(stdout.ends_with("shutdown to stdout\n"), "{stdout}");
    assert_eq!(ran.log("user/stderr/0/process000.stderr.txt"), "init to stderr\n");
    // The script wrote this file into the log folder.
    assert!(
        ran.log("user/entry_script_log/0/files/process000.txt").contains("agent_name=process000")
    );
    assert_eq!(levels(&ran), ["ERROR", "WARNING", "INFO", "DEBUG"]);
    let log = ran.log("user/entry_script_log/0/process000.log.txt");
    assert!(log.ends_with("INFO    process000 shutdown\n"), "{log}");
    // Each line has the time, the level and the name of the worker.
    let line = log.lines().find(|line| line.ends_with(" a warning")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..], ["WARNING", "process000", "a", "warning"], "{log}");
    let time = words[0].as_bytes();
    assert!(time.len() == 24 && time[10] == b'T' && time[19] == b'.' && time[23] == b'Z', "{line}");
}

/// Rules C15, E17: the default level is INFO.
#[test]
fn logging_level_drops_less_severe_messages() {
    for (level, logged) in
        [("INFO", &["ERROR", "WARNING", "INFO"][..]), ("WARNING", &["ERROR", "WARNING"])]
    {
        let ran = surroundings().run(&["--set", &format!("logging_level={level}")]);
        ran.exits_with(0);
        assert_eq!(levels(&ran), logged, "{level}");
    }
    assert_eq!(levels(&surroundings().run(&[])), ["ERROR", "WARNING", "INFO"]);
}

/// The levels of the lines in the log, each once, in the order of severity.
fn levels(ran: &Ran) -> Vec<&'static str> {
    let log = ran.log("user/entry_script_log/0/process000.log.txt");
    let is_there = |level: &str| log.lines().any(|line| line.contains(&format!("Z {level}")));
    ["ERROR", "WARNING", "INFO", "DEBUG"].into_iter().filter(|level| is_there(level)).collect()
}

/// Runs the guest `reads_outside` with these arguments. Returns its results for the paths in the arguments.
fn access_results(job: TestJob, arguments: &[&str]) -> Vec<String> {
    let ran = job.run(&["--set", &format!("arguments={arguments:?}")]);
    ran.exits_with(0);
    let is_requested = |part: &&str| {
        let request = part.split_once('=').and_then(|(request, _)| request.split_once(' '));
        request.is_some_and(|(_, path)| arguments.contains(&path))
    };
    let output = ran.output().replace('\n', " | ");
    output.split(" | ").filter(is_requested).map(cut_denials).collect()
}

/// Rules C30, E12, C2, C22: the script can read its side inputs and source files at the paths that the host
/// passes, but cannot write to them.
#[test]
fn side_inputs_and_source_are_read_only() {
    let job = TestJob::new(&guest("reads_outside"))
        .file("in/a.txt", "1")
        .file("weights/deep/w.bin", "22")
        .file("more/m.bin", "333")
        .file("code/one.txt", "4444")
        .yaml(
            "source_directory: code\ninputs: {texts: in}\nprocess_count_per_node: 1\n\
             side_inputs: {weights: weights, more: {path: more, mount_path: /models/large}}",
        );
    let paths = ["/side_inputs/weights/deep/w.bin", "/models/large/m.bin", "/source/one.txt"];
    let mut arguments = Vec::new();
    for path in paths {
        arguments.extend(["--path", path, "--write", path]);
    }
    arguments.extend(["--list", "/side_inputs/weights", "--write", "/side_inputs/weights/new"]);
    arguments.extend(["--path", "/side_inputs/more/m.bin"]);
    assert_snapshot!(access_results(job, &arguments).join("\n"), @r#"
    host /side_inputs/weights/deep/w.bin=GOT IT: 2
    wasi /side_inputs/weights/deep/w.bin=GOT IT: 2
    host /models/large/m.bin=GOT IT: 3
    wasi /models/large/m.bin=GOT IT: 3
    host /source/one.txt=GOT IT: 4
    wasi /source/one.txt=GOT IT: 4
    host /side_inputs/more/m.bin=denied: /side_inputs/more/m.bin: it is outside of the folders that were granted
    wasi /side_inputs/more/m.bin=denied
    list /side_inputs/weights=GOT IT: ["deep"]
    write /side_inputs/weights/deep/w.bin=denied
    write /models/large/m.bin=denied
    write /source/one.txt=denied
    write /side_inputs/weights/new=denied
    "#);
}

#[test]
fn a_glob_shows_only_the_files_that_it_matches() {
    let job = TestJob::new(&guest("reads_outside"))
        .file("in/a.txt", "1")
        .file("in/secret.md", "22")
        .file("in/deep/b.txt", "333")
        .file("in/deep/secret.md", "4444")
        .file("in/closed/secret.md", "4444")
        .yaml("inputs: {texts: 'in/**/*.txt'}\nprocess_count_per_node: 1\nmini_batch_size: 1");
    let arguments = [
        "--path",
        "/inputs/texts/a.txt",
        "--path",
        "/inputs/texts/secret.md",
        "--path",
        "/inputs/texts/deep/secret.md",
        "--path",
        "/inputs/texts/closed/secret.md",
        "--list",
        "/inputs/texts",
    ];
    assert_snapshot!(access_results(job, &arguments).join("\n"), @r#"
    host /inputs/texts=denied: /inputs/texts: it is not a regular file
    wasi /inputs/texts=denied
    host /inputs/texts/a.txt=GOT IT: 1
    wasi /inputs/texts/a.txt=GOT IT: 1
    host /inputs/texts/secret.md=denied: /inputs/texts/secret.md: there is no such file
    wasi /inputs/texts/secret.md=denied
    host /inputs/texts/deep/secret.md=denied: /inputs/texts/deep/secret.md: there is no such file
    wasi /inputs/texts/deep/secret.md=denied
    host /inputs/texts/closed/secret.md=denied: /inputs/texts/closed/secret.md: there is no such file
    wasi /inputs/texts/closed/secret.md=denied
    list /inputs/texts=GOT IT: ["a.txt"]
    host /inputs/texts/a.txt=denied: /inputs/texts/a.txt: there is no such file
    wasi /inputs/texts/a.txt=denied
    host /inputs/texts/secret.md=denied: /inputs/texts/secret.md: there is no such file
    wasi /inputs/texts/secret.md=denied
    host /inputs/texts/deep/secret.md=denied: /inputs/texts/deep/secret.md: there is no such file
    wasi /inputs/texts/deep/secret.md=denied
    host /inputs/texts/closed/secret.md=denied: /inputs/texts/closed/secret.md: there is no such file
    wasi /inputs/texts/closed/secret.md=denied
    list /inputs/texts=GOT IT: ["deep"]
    "#);
}
