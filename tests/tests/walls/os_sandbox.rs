//! `os_sandbox` and `sandmill doctor`: what happens if a layer of the process wall is missing.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, guest, root, sandmill};
use serde_json::Value;
use std::process::{Command, Output};

/// An environment variable with which a debug build treats this layer as missing.
const MISSING_LAYER: (&str, &str) = ("SANDMILL_MISSING_LAYER", "landlock");

fn job(mode: &str) -> TestJob {
    TestJob::new(&guest("run_only"))
        .yaml("inputs: [{ name: texts, path: input }]")
        .yaml(&format!("os_sandbox: {mode}"))
        .file("input/a.txt", "two words")
}

/// The wall's state in `job.json`.
fn wall(ran: &Ran) -> Value {
    let state: Value = serde_json::from_str(&ran.text("job/job.json")).unwrap();
    state["result"]["os_sandbox"].clone()
}

fn doctor(arguments: &[&str], lacks_layer: bool) -> Output {
    let mut command = Command::new(sandmill());
    command.arg("doctor").args(arguments);
    if lacks_layer {
        command.env(MISSING_LAYER.0, MISSING_LAYER.1);
    }
    command.output().unwrap()
}

#[test]
fn a_job_reports_its_process_wall() {
    let ran = job("best-effort").run(&[]);
    ran.exits_with(0);
    let wall = wall(&ran);
    assert_eq!(wall["mode"], "best-effort");
    let active = wall["active"].to_string();
    for layer in ["no new privileges", "resource limits", "own session", "parent-death signal"] {
        assert!(active.contains(layer), "{active}");
    }
    assert!(ran.log("job_result.txt").contains("  os_sandbox    best-effort: "), "{ran}");
}

#[test]
fn a_missing_layer_stops_the_job_before_anything_runs() {
    let ran = job("required").env(MISSING_LAYER.0, MISSING_LAYER.1).run(&[]);
    ran.exits_with(2);
    for part in ["the layer 'landlock': ", "os_sandbox: best-effort", "sandmill doctor"] {
        ran.says(part);
    }
    assert!(!ran.has("job"), "nothing is left of the job: {ran}");
}

#[test]
fn missing_layers_are_reported_if_the_job_continues() {
    let ran = job("best-effort").env(MISSING_LAYER.0, MISSING_LAYER.1).run(&[]);
    ran.exits_with(0);
    ran.says("continues without a layer of the process wall: landlock: ");
    let missing = wall(&ran)["missing"].to_string();
    assert!(missing.contains("landlock: "), "{missing}");
}

/// The leader's session may be outside of its PID namespace, as in the sandboxes of many build
/// servers. Tests a leader with its own process group, and a leader without one.
#[test]
fn the_session_may_be_outside_of_the_namespace() {
    let unshare = |flags: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(flags).args(["--pid", "--fork"]);
        command
    };
    let flags: &[&[&str]] = &[&[], &["--user", "--map-root-user"]];
    let can_unshare =
        |flags: &&&[&str]| unshare(flags).arg("true").status().is_ok_and(|status| status.success());
    let Some(flags) = flags.iter().find(can_unshare) else {
        eprintln!("not tried: this user cannot create a namespace");
        return;
    };
    for shell in [&["-c", "exec \"$@\""], &["-mc", "\"$@\" & wait $!"]] {
        let job = job("required");
        let mut command = unshare(flags);
        command.arg("bash").args(shell).arg("bash").arg(sandmill()).args(["run", "job.yaml"]);
        command.env("SANDMILL_CACHE_DIR", root().join("target/test-cache"));
        let ran = command.current_dir(job.dir()).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn a_job_runs_without_the_wall() {
    let ran = job("off").run(&[]);
    ran.exits_with(0);
    let wall = wall(&ran);
    assert_eq!(wall["mode"], "off");
    let missing = wall["missing"].to_string();
    assert!(missing.contains("landlock: os_sandbox is off"), "{missing}");
    assert!(missing.contains("seccomp: os_sandbox is off"), "{missing}");
}

#[test]
fn the_doctor_lists_the_layers_of_this_machine() {
    let output = doctor(&["--json"], false);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let works = found["required_works"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if works { 0 } else { 2 }));
    let layers = found["layers"].as_array().unwrap();
    for layer in layers.iter().chain([&found["cgroup_v2"]]) {
        assert!(layer["name"].is_string(), "{layer}");
        let is_found = layer["found"].is_string();
        assert_eq!(layer["missing"].is_string(), !is_found, "{layer}");
        assert_eq!(layer["what_to_do"].is_string(), !is_found, "{layer}");
    }
    assert!(layers.iter().any(|layer| layer["name"] == "landlock"), "{found}");
    assert!(layers.iter().any(|layer| layer["name"] == "seccomp"), "{found}");
    assert!(found["kernel"].is_string() && found["gpus"]["count"].is_u64(), "{found}");
    assert!(found["cache"]["free"].is_u64(), "{found}");
}

#[test]
fn the_doctor_reports_missing_layers() {
    let output = doctor(&[], true);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("MISSING   landlock: "), "{text}");
    assert!(text.contains("what to do: use Linux 6.2 or later"), "{text}");
    let found: Value = serde_json::from_slice(&doctor(&["--json"], true).stdout).unwrap();
    assert_eq!(found["required_works"], false);
}

/// A job can use paths with links and `..`: the wall's rules apply to the folder to which such a path leads.
#[test]
fn linked_folders_and_roundabout_paths_can_be_used() {
    let job = TestJob::new(&guest("run_only"))
        .file("data/texts/a.txt", "two words")
        .file("elsewhere/weights.bin", "w")
        .file("shared/more.bin", "m")
        .file("data/jobs/unused", "");
    std::os::unix::fs::symlink("../elsewhere", job.path("data/model")).unwrap();
    let ran = job
        .yaml("source_directory: data\ninputs: [{ name: texts, path: data/texts }]")
        .yaml("side_inputs: { model: data/model, shared: data/../shared }")
        .yaml("os_sandbox: required")
        .run(&[]);
    ran.exits_with(0);
}
