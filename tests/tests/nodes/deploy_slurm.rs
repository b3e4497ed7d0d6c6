//! `deploy/slurm/sandmill.sbatch` with real brokers, agents and leaders. Only Slurm's own commands are replaced: `srun`
//! starts the processes of all nodes on this machine.

use crate::cluster::{assert_complete, job};
use sandmill_tests::{Ran, TestJob, root, sandmill};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How many nodes the allocation has.
const NODES: usize = 3;

/// Starts a command once for each node, and waits for all of them. On SIGTERM, kills them, as `srun` does.
const SRUN: &str = r#"#!/usr/bin/env bash
set -u
while [[ $1 == --* ]]; do
    case $1 in
        --nodes=3|--ntasks-per-node=1|--overlap|--mem=0|--cpu-bind=none|--kill-on-bad-exit=0) shift ;;
        *) echo "srun: unknown option $1" >&2; exit 1 ;;
    esac
done
pids=()
for node in 0 1 2; do
    SLURMD_NODENAME=node-$node "$@" &
    pids+=($!)
done
trap 'kill -KILL "${pids[@]}" 2>/dev/null' TERM
code=0
for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done
done
exit $code
"#;

const SCONTROL: &str = r#"#!/usr/bin/env bash
[[ "$*" == "show hostnames node-[0-2]" ]] || { echo "scontrol: $*" >&2; exit 1; }
printf '127.0.0.1\n127.0.0.2\n127.0.0.3\n'
"#;

/// A folder with programs for `PATH`.
fn programs(folder: &Path) -> PathBuf {
    let programs = folder.join("programs");
    fs::create_dir(&programs).unwrap();
    for (name, text) in [("srun", SRUN), ("scontrol", SCONTROL)] {
        fs::write(programs.join(name), text).unwrap();
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink(sandmill(), programs.join("sandmill")).unwrap();
    symlink(root().join("target/venv/bin/nats-server"), programs.join("nats-server")).unwrap();
    programs
}

/// The script for a job, as Slurm starts it on the first node. Its output goes to the file `output`.
fn batch(job: &TestJob, folder: &Path, programs: &Path, options: &[&str]) -> Command {
    let mut command = Command::new("bash");
    let path = std::env::var("PATH").unwrap();
    let output = fs::File::create(folder.join("output")).unwrap();
    command
        .arg(root().join("deploy/slurm/sandmill.sbatch"))
        .arg(job.path("job.yaml"))
        .args(options)
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("SANDMILL_LOCAL", folder)
        .env("SLURM_JOB_ID", format!("{}", std::process::id()))
        .env("SLURM_JOB_NODELIST", "node-[0-2]")
        .env("SLURM_JOB_NUM_NODES", NODES.to_string())
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("SANDMILL_REGISTRY", folder.join("registry.db"))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    command
}

/// What the script leaves on the local disk, besides what the test has put there.
fn left_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with("sandmill-")).collect()
}

/// The result of the job in the test's folder, without running anything.
fn result_of(job: TestJob) -> Ran {
    job.command(&["version"])
}

#[test]
fn a_job_runs_in_an_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(folder.path());
    let job = job(1, "");
    let status = batch(&job, folder.path(), &programs, &["--no-takeover"]).status().unwrap();
    let output = fs::read_to_string(folder.path().join("output")).unwrap();
    assert!(status.success(), "{status}: {output}");
    for node in 0..NODES {
        assert!(output.contains(&format!("(node-{node}) takes part")), "{output}");
    }
    assert_complete(&result_of(job));
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}

/// At the time limit, Slurm sends SIGTERM: the job is cancelled, everything ends, and the next allocation continues it.
#[test]
fn a_job_that_reaches_the_time_limit_is_continued_later() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(folder.path());
    let job = job(1, "arguments: [--nap, '400']");
    let mut child = batch(&job, folder.path(), &programs, &[]).spawn().unwrap();
    let output = || fs::read_to_string(folder.path().join("output")).unwrap();
    let begun = Instant::now();
    while !output().contains("(node-2) takes part") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", output());
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_secs(1));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", output());
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
    let status = batch(&job, folder.path(), &programs, &[]).status().unwrap();
    assert!(status.success(), "{status}: {}", output());
    assert!(output().contains("resume"), "{}", output());
    assert_complete(&result_of(job));
}

/// Without a usable broker, the script ends at once, and says why.
#[test]
fn a_broker_that_does_not_start_ends_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(folder.path());
    let job = job(1, "");
    let mut batch = batch(&job, folder.path(), &programs, &[]);
    let status = batch.env("SANDMILL_BROKER_PORT", "1000000").status().unwrap();
    let output = fs::read_to_string(folder.path().join("output")).unwrap();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(output.contains("port"), "{output}");
    assert_eq!(left_in(folder.path()), Vec::<String>::new());
}
