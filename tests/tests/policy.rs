//! The operator's policy file: what a stranger's job file asks for beyond it is refused, exit code 2,
//! and nothing of it runs.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Job, Ran, guest};
use std::path::Path;

/// A job with a policy file that suits it.
fn job() -> Job {
    let job = Job::new(&guest("echo_files"))
        .yaml("inputs: { files: input }\nprocess_count_per_node: 1")
        .file("input/a.txt", "a")
        .file("weights/w.bin", "w");
    let policy = policy(job.dir());
    job.file("policy.yaml", policy)
}

fn policy(dir: &Path) -> String {
    let (dir, scripts) = (dir.display(), guest("echo_files"));
    let scripts = scripts.parent().unwrap().display();
    format!(
        "limits: {{memory: 512 MB}}\nroots:\n  inputs: ['{dir}/input']\n  \
         side_inputs: ['{dir}/weights']\n  entry_scripts: ['{scripts}']\n  outputs: []\n  \
         job_directories: ['{dir}']\n"
    )
}

/// What was said, without the folder.
fn said(ran: &Ran) -> String {
    ran.stderr.replace(&format!("{}/", ran.dir().display()), "").trim_end().to_owned()
}

#[test]
fn the_folder_of_passwords_is_no_side_input() {
    let job = job().yaml("side_inputs: /etc\n");
    let ran = job.run(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    assert!(!ran.has("job"), "{ran}");
    let named = ran.into_job().file("job.yaml", "").yaml(&format!(
        "name: test\nentry_script: {}\ninputs: {{ files: input }}\nside_inputs: {{ s: /etc }}\n\
         limits: {{ memory: 1 GB }}",
        guest("echo_files").display()
    ));
    let mut told = Vec::new();
    for command in [&["run", "job.yaml", "--job-dir", "job"][..], &["plan", "job.yaml"]] {
        let command = [command, &["--policy", "policy.yaml"]].concat();
        let ran = rerun(&named, &command);
        ran.exits_with(2);
        assert!(!ran.has("job"), "{ran}");
        told.push(said(&ran));
    }
    assert_eq!(told[0], told[1]);
    assert_snapshot!(told[0], @"
    error: job.yaml:4: side_inputs.s.path: found /etc; the operator's policy allows side inputs only below weights (policy.yaml:4)
    error: job.yaml:5: limits.memory: found 1 GB, more than the operator's policy allows; ask for at most 512 MB (policy.yaml:1)
    ");
}

/// The same folder's files in a new one, so that a job can be run again in other ways.
fn rerun(job: &Job, command: &[&str]) -> Ran {
    let text = std::fs::read_to_string(job.path("job.yaml")).unwrap();
    self::job().file("job.yaml", text).command(command)
}

#[test]
fn a_job_within_the_policy_runs() {
    let ran = job().yaml("side_inputs: { s: weights }").run(&["--policy", "policy.yaml"]);
    ran.exits_with(0);
    ran.says("limits.memory: 512 MB by the operator's policy");
}

/// No way around it: by a variable, by what cannot be read, by resuming, by another place for the
/// job, by a link.
#[test]
fn a_policy_is_not_evaded() {
    let ran = job().env("SANDMILL_POLICY", "policy.yaml").run(&["--set", "side_inputs.s=/etc"]);
    ran.exits_with(2);
    ran.says("--set side_inputs.s: side_inputs.s.path: found /etc; the operator's policy allows");
    let ran = job().env("SANDMILL_POLICY", "gone.yaml").run(&[]);
    ran.exits_with(2);
    assert_snapshot!(said(&ran), @"error: gone.yaml: there is no such file");
    let ran = job().file("wrong.yaml", "limits: {memroy: 1 GB}").run(&["--policy", "wrong.yaml"]);
    ran.exits_with(2);
    assert_snapshot!(said(&ran), @"error: wrong.yaml:1: limits.memroy: unknown key; did you mean memory?");

    let ran = job().run(&["--set", "side_inputs.s=/etc"]);
    ran.exits_with(0);
    let ran = ran.into_job().resume(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    ran.says("found /etc; the operator's policy allows side inputs only below");

    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().join("job");
    let place = place.to_str().unwrap();
    let ran = job().command(&["run", "job.yaml", "--policy", "policy.yaml", "--job-dir", place]);
    ran.exits_with(2);
    ran.says("the operator's policy allows job directories only below");
    assert!(!Path::new(place).exists());

    let job = job();
    std::os::unix::fs::symlink("/etc", job.path("input/link")).unwrap();
    let ran = job.run(&["--policy", "policy.yaml", "--set", "inputs.files.path=input/link"]);
    ran.exits_with(2);
    ran.says("input/link, which is /etc; the operator's policy allows inputs only below");
}

#[test]
fn what_is_no_job_keeps_to_it_as_well() {
    let crates = ["check", "crate", "--policy", "policy.yaml"];
    let with_crate = || job().file("crate/Cargo.toml", "[package]").file("crate/build.rs", "");
    let ran = with_crate().command(&crates);
    ran.exits_with(2);
    ran.says("a guest crate; the operator's policy allows none");
    let ran = with_crate().command(&["build", "crate", "--policy", "policy.yaml"]);
    ran.exits_with(2);
    ran.says("a guest crate; the operator's policy allows none");
    let script = guest("echo_files");
    let script = script.to_str().unwrap();
    let trial =
        |file: &str| job().command(&["check", script, "--policy", "policy.yaml", "--run", file]);
    trial("input/a.txt").exits_with(0);
    let ran = trial("/etc/passwd");
    ran.exits_with(2);
    ran.says("--run: found /etc/passwd; the operator's policy allows inputs only below");
    // Looking into a component is not for any file, either.
    let inspect = |arguments: &[&str]| {
        let arguments = [&["inspect", "--policy", "policy.yaml"], arguments].concat();
        job().file("stray.wasm", "").command(&arguments)
    };
    inspect(&[script]).exits_with(0);
    for refused in [&["stray.wasm"][..], &[script, "--diff", "stray.wasm"]] {
        let ran = inspect(refused);
        ran.exits_with(2);
        ran.says(
            "stray.wasm; the operator's policy allows entry scripts and their source only below",
        );
    }
}

/// An operator can see which file holds.
#[test]
fn the_doctor_names_the_policy() {
    let doctor = |arguments: &[&str], variable: &str| {
        let job = job().file("wrong.yaml", "limits: {memroy: 1 GB}");
        job.env("SANDMILL_POLICY", variable).command(&[&["doctor"], arguments].concat())
    };
    let told = |ran: &Ran| {
        let (_, part) = ran.stdout.split_once("What jobs may ask for:\n").unwrap();
        part.split_once("\n\n").unwrap().0.to_owned()
    };
    let json = |ran: &Ran| {
        let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        found["policy"].clone()
    };
    assert_eq!(told(&doctor(&[], "policy.yaml")), "  ok        the operator's policy: policy.yaml");
    let given = json(&doctor(&["--json", "--policy", "policy.yaml"], "gone.yaml"));
    assert_eq!(given, serde_json::json!({"file": "policy.yaml", "problem": null}));
    let wrong = doctor(&[], "wrong.yaml");
    wrong.exits_with(2);
    assert_snapshot!(told(&wrong), @"
    WRONG     the operator's policy: wrong.yaml
              error: wrong.yaml:1: limits.memroy: unknown key; did you mean memory?
    ");
    assert!(json(&doctor(&["--json"], "gone.yaml"))["problem"].is_string());
    if !Path::new("/etc/sandmill/policy.yaml").exists() {
        assert_eq!(
            json(&doctor(&["--json"], "")),
            serde_json::json!({"file": null, "problem": null})
        );
    }
}
