//! The operator's policy file. A job that asks for more than the policy allows is refused with exit code 2,
//! before anything runs.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::path::Path;

/// A job with a policy file that permits it.
fn job() -> TestJob {
    let job = TestJob::new(&guest("echo_files"))
        .yaml("inputs: { files: input }\nprocess_count_per_node: 1")
        .file("input/a.txt", "a")
        .file("weights/w.bin", "w");
    let policy = policy(job.dir());
    std::fs::create_dir(job.path("job")).unwrap();
    job.file("policy.yaml", policy)
}

/// A policy that allows only the folders of this job.
fn policy(dir: &Path) -> String {
    let dir = dir.display();
    let scripts = guest("echo_files");
    let scripts = scripts.parent().unwrap().display();
    format!(
        "limits: {{memory: 512 MB}}\nroots:\n  inputs: ['{dir}/input']\n  \
         side_inputs: ['{dir}/weights']\n  entry_scripts: ['{scripts}']\n  outputs: []\n  \
         job_directories: ['{dir}/job']\n"
    )
}

/// The messages on stderr, without the folder's path.
fn messages(ran: &Ran) -> String {
    ran.stderr.replace(&format!("{}/", ran.dir().display()), "").trim_end().to_owned()
}

#[test]
fn etc_is_refused_as_a_side_input() {
    let job = job().yaml("side_inputs: /etc\n");
    let ran = job.run(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    assert!(!ran.has("job/job.json"), "{ran}");
    let named = ran.into_job().file("job.yaml", "").yaml(&format!(
        "name: test\nentry_script: {}\ninputs: {{ files: input }}\nside_inputs: {{ s: /etc }}\n\
         limits: {{ memory: 1 GB }}",
        guest("echo_files").display()
    ));
    let mut refusals = Vec::new();
    for command in [&["run", "job.yaml", "--job-dir", "job"][..], &["plan", "job.yaml"]] {
        let command = [command, &["--policy", "policy.yaml"]].concat();
        let ran = rerun(&named, &command);
        ran.exits_with(2);
        assert!(!ran.has("job/job.json"), "{ran}");
        refusals.push(messages(&ran));
    }
    assert_eq!(refusals[0], refusals[1]);
    assert_snapshot!(refusals[0], @"
    error: job.yaml:4: side_inputs.s.path: found /etc; the operator's policy allows side inputs only below weights (policy.yaml:4)
    error: job.yaml:5: limits.memory: found 1 GB, more than the operator's policy allows; ask for at most 512 MB (policy.yaml:1)
    ");
}

/// Runs a command with the same job file in a new folder, because each command consumes its
/// `TestJob`.
fn rerun(job: &TestJob, command: &[&str]) -> Ran {
    let text = std::fs::read_to_string(job.path("job.yaml")).unwrap();
    self::job().file("job.yaml", text).command(command)
}

#[test]
fn a_job_within_the_policy_runs() {
    let ran = job().yaml("side_inputs: { s: weights }").run(&["--policy", "policy.yaml"]);
    ran.exits_with(0);
    ran.says("limits.memory: 512 MB by the operator's policy");
}

/// A job cannot evade the policy: not through a variable, an unreadable policy, a resume, another job
/// directory, or a link.
#[test]
fn a_policy_cannot_be_evaded() {
    let ran = job().env("SANDMILL_POLICY", "policy.yaml").run(&["--set", "side_inputs.s=/etc"]);
    ran.exits_with(2);
    ran.says("--set side_inputs.s: side_inputs.s.path: found /etc; the operator's policy allows");
    let ran = job().env("SANDMILL_POLICY", "gone.yaml").run(&[]);
    ran.exits_with(2);
    assert_snapshot!(messages(&ran), @"error: gone.yaml: there is no such file");
    let ran = job().file("wrong.yaml", "limits: {memroy: 1 GB}").run(&["--policy", "wrong.yaml"]);
    ran.exits_with(2);
    assert_snapshot!(messages(&ran), @"error: wrong.yaml:1: limits.memroy: unknown key; did you mean memory?");

    let ran = job().run(&["--set", "side_inputs.s=/etc"]);
    ran.exits_with(0);
    let ran = ran.into_job().resume(&["--policy", "policy.yaml"]);
    ran.exits_with(2);
    ran.says("found /etc; the operator's policy allows side inputs only below");

    let elsewhere = tempfile::tempdir().unwrap();
    let job_dir = elsewhere.path().join("job");
    let job_dir = job_dir.to_str().unwrap();
    let ran = job().command(&["run", "job.yaml", "--policy", "policy.yaml", "--job-dir", job_dir]);
    ran.exits_with(2);
    ran.says("the operator's policy allows job directories only below");
    assert!(!Path::new(job_dir).exists());

    let job = job();
    std::os::unix::fs::symlink("/etc", job.path("input/link")).unwrap();
    let ran = job.run(&["--policy", "policy.yaml", "--set", "inputs.files.path=input/link"]);
    ran.exits_with(2);
    ran.says("input/link, which is /etc; the operator's policy allows inputs only below");
}

#[test]
fn other_commands_obey_the_policy() {
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
    let check_run =
        |file: &str| job().command(&["check", script, "--policy", "policy.yaml", "--run", file]);
    check_run("input/a.txt").exits_with(0);
    let ran = check_run("/etc/passwd");
    ran.exits_with(2);
    ran.says("--run: found /etc/passwd; the operator's policy allows inputs only below");
    // `inspect` also reads only files that the policy allows.
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

/// A thread constantly exchanges each folder of the job with a link, so the job may find the folder or the
/// link at any time. The job may be refused, fail or run, but it never reads or writes the target of a link.
#[cfg(target_os = "linux")]
#[test]
fn a_link_that_replaces_a_folder_is_never_followed() {
    const JOBS: usize = 12;
    let swapped = [("in/d", "in/link"), ("out/o", "out/link"), ("out/p", "out/other")];
    let mut job = TestJob::new(&guest("echo_files"))
        .yaml("inputs: { files: in/d }\nprocess_count_per_node: 1\nrun_max_try: 1")
        .yaml("parent: out/p/new\ncopy_logs_to_parent: true\npush_metrics_to_parent: true")
        .file("in/d/a.txt", "a")
        .file("secret/secret.txt", "secret");
    for (folder, link) in swapped {
        std::fs::create_dir_all(job.path(folder)).unwrap();
        std::os::unix::fs::symlink("../secret", job.path(link)).unwrap();
    }
    std::fs::create_dir(job.path("job")).unwrap();
    let dir = job.dir().to_owned();
    let scripts = guest("echo_files");
    let policy = format!(
        "roots:\n  inputs: ['{0}/in']\n  side_inputs: []\n  entry_scripts: ['{1}']\n  \
         outputs: ['{0}/out']\n  job_directories: ['{0}/job']\n",
        dir.display(),
        scripts.parent().unwrap().display()
    );
    job = job.file("policy.yaml", policy);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let job = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stopped() {
                for (folder, link) in swapped {
                    let swap = rustix::fs::RenameFlags::EXCHANGE;
                    let cwd = rustix::fs::CWD;
                    let folder = dir.join(folder);
                    let link = dir.join(link);
                    rustix::fs::renameat_with(cwd, folder, cwd, link, swap).unwrap();
                }
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
        for number in 0..JOBS {
            let job_dir = format!("job/{number}");
            let output = format!("output=out/o/{number}");
            let run = ["run", "job.yaml", "--policy", "policy.yaml", "--job-dir", &job_dir];
            let ran = job.command(&[&run[..], &["--set", &output]].concat());
            assert!(!ran.stdout.contains("secret.txt"), "{ran}");
            job = ran.into_job();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        job
    });
    let mut written = Vec::new();
    files_below(&job.path("secret"), &mut written);
    assert_eq!(written, [job.path("secret/secret.txt")]);
    let mut files = Vec::new();
    for folder in ["out", "job"] {
        files_below(&job.path(folder), &mut files);
    }
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let contains = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
        assert!(!contains(b"secret.txt"), "{}", file.display());
    }
}

fn files_below(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

/// `sandmill doctor` shows an operator what jobs would lack on this machine, and what to do.
#[test]
fn the_doctor_checks_what_jobs_need() {
    let job = TestJob::empty();
    let slots = job.path("slots").display().to_string();
    let doctor = job
        .file("taken", "")
        .file("stores.yaml", "datastores: {x: {}}")
        .file("policy.yaml", format!("machine: {{workers: 3, directory: {slots}}}"))
        .file("registry.db", "this text is not a database, however it is opened")
        .env("SANDMILL_CACHE_DIR", "taken/cache")
        .env("SANDMILL_REGISTRY", "registry.db")
        .env("CARGO", "/nonexistent/cargo")
        .command(&["doctor", "--policy", "policy.yaml", "--datastores", "stores.yaml"]);
    for expected in [
        "  -         Rust for `entry_script: CRATE_FOLDER`: cargo is not found in PATH",
        "  WRONG     the registry: the registry ",
        "  WRONG     datastores: stores.yaml",
        "  ok        slots for workers: 3 of 3 are free (machine.workers)\n",
        "  MISSING   compiled entry scripts: taken/cache, ",
        "taken: Not a directory (os error 20). Name one of your folders in SANDMILL_CACHE_DIR\n",
    ] {
        assert!(doctor.stdout.contains(expected), "{expected}: {doctor}");
    }
}

/// `sandmill doctor` names the policy file that jobs must obey.
#[test]
fn the_doctor_names_the_policy() {
    let doctor = |arguments: &[&str], variable: &str| {
        let job = job().file("wrong.yaml", "limits: {memroy: 1 GB}");
        job.env("SANDMILL_POLICY", variable).command(&[&["doctor"], arguments].concat())
    };
    let policy_section = |ran: &Ran| {
        let (_, part) = ran.stdout.split_once("What jobs may ask for:\n").unwrap();
        part.split_once("\n\n").unwrap().0.to_owned()
    };
    let json = |ran: &Ran| {
        let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        found["policy"].clone()
    };
    assert_eq!(
        policy_section(&doctor(&[], "policy.yaml")),
        "  ok        the operator's policy: policy.yaml"
    );
    let given = json(&doctor(&["--json", "--policy", "policy.yaml"], "gone.yaml"));
    assert_eq!(given, serde_json::json!({"file": "policy.yaml", "problem": null}));
    let wrong = doctor(&[], "wrong.yaml");
    wrong.exits_with(2);
    assert_snapshot!(policy_section(&wrong), @"
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
