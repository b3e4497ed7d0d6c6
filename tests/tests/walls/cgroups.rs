//! Cgroups of workers. Most of these tests create cgroups with limits. For this, they must run as the user
//! root, in the topmost cgroup (version 2). `scripts/cgroup-tests.sh` provides such a machine.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, good_row, root, sandmill, wat_module};
use serde_json::Value;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Locks the folder in which the leaders of these tests create cgroups. Only one test at a time may
/// use the folder, because cgroups of other tests would interfere. If leaders create no
/// cgroups, prints the reason and returns `None`.
fn lock_folder() -> Option<CgroupFolder> {
    let output = Command::new(sandmill()).args(["doctor", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Some(words) = found["cgroup_v2"]["found"].as_str() else {
        eprintln!("not tried: {}", found["cgroup_v2"]["missing"]);
        return None;
    };
    let (_, path_and_layers) = words.split_once(" below ").unwrap();
    // The lock holds between threads as well as between processes.
    let lock = fs::File::create(root().join("target/cgroup-tests.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    Some(CgroupFolder {
        path: path_and_layers.split_once(", with ").unwrap().0.into(),
        _lock: lock,
    })
}

/// The folder of cgroups, with a lock on it.
struct CgroupFolder {
    path: PathBuf,
    _lock: fs::File,
}

impl Deref for CgroupFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// The names of the cgroups that leaders have created in this folder.
fn cgroups_of_leaders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("sandmill-")).collect()
}

/// A job with a guest whose `run` has this body, in WebAssembly's text format.
fn job_of(run: &str) -> TestJob {
    let guest = wat_module(&format!("(module COMMON GOOD (func RUN {run}))"));
    TestJob::empty().file("guest.wasm", guest).yaml("name: test\nentry_script: guest.wasm")
}

/// Returns one row.
const GOOD: &str = "(call $good (local.get $id))";
/// Never returns.
const ENDLESS: &str = "(loop $again (br $again)) unreachable";

fn job() -> TestJob {
    job_of(GOOD).yaml("inputs: { texts: input }").file("input/a.txt", "two words")
}

/// The wall's state in `job.json`.
fn wall(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("job/job.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["result"]["os_sandbox"].clone()
}

fn has_cgroup(wall: &Value) -> bool {
    let layers = wall["active"].as_array().unwrap();
    layers.iter().any(|layer| layer.as_str().unwrap().starts_with("cgroup ("))
}

#[test]
fn a_job_without_cgroups_runs_and_reports_it() {
    let ran: Ran =
        job().yaml("os_sandbox: best-effort").env("SANDMILL_MISSING_LAYER", "cgroup").run(&[]);
    ran.exits_with(0);
    let wall = wall(ran.dir());
    assert!(!has_cgroup(&wall), "{wall}");
    assert!(wall["missing"].to_string().contains("cgroup: SANDMILL_MISSING_LAYER"), "{wall}");
    assert!(!ran.stderr.contains("cgroup:"), "the user does not have to act: {ran}");
    let off = job().yaml("os_sandbox: off").run(&[]);
    assert!(off.exits_with(0).log("job_result.txt").contains("cgroup: os_sandbox is off"), "{off}");
}

/// Checks the limits of a worker's cgroup, the processes in it, and its removal after the leader was killed.
#[test]
fn a_worker_has_its_own_cgroup() {
    let Some(folder) = lock_folder() else { return };
    let mut running = job_of(ENDLESS)
        .yaml("inputs: { files: input }\nprocess_count_per_node: 2\nmini_batch_size: 1")
        .yaml("os_sandbox: best-effort\nrun_invocation_timeout: 120")
        .file("input/a.txt", "x")
        .file("input/b.txt", "x")
        .start(&[]);
    let cgroup_of = |name: &str, pid: u32| folder.join(format!("sandmill-{pid}-{name}"));
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    for name in ["process000", "process001"] {
        running.until("the worker is in its cgroup", |running| {
            let process = text(cgroup_of(name, running.pid()).join("cgroup.procs"));
            running.children().iter().any(|(pid, _)| pid.to_string() == process)
        });
        let cgroup = cgroup_of(name, running.pid());
        assert_eq!(text(cgroup.join("pids.max")), "64");
        if cgroup.join("memory.max").exists() {
            let limit = text(cgroup.join("memory.max"));
            let is_set = limit.parse().is_ok_and(|limit: u64| limit > 256 << 20);
            assert!(is_set || limit == "max", "{limit}: a limit, or none for a disk in memory");
            assert_eq!(is_set, text(cgroup.join("memory.oom.group")) == "1");
        }
    }
    let leader = running.pid();
    running.kill_leader();
    let left = cgroup_of("process000", leader);
    running.wait();
    assert!(left.exists(), "the killed leader could not remove the cgroup");
    let ran = job().yaml("os_sandbox: best-effort").run(&[]);
    ran.exits_with(0);
    assert!(has_cgroup(&wall(ran.dir())), "{ran}");
    let prefix = format!("sandmill-{leader}-");
    assert!(
        !cgroups_of_leaders(&folder).iter().any(|name| name.starts_with(&prefix)),
        "{:?}",
        cgroups_of_leaders(&folder)
    );
}

/// The leader's cgroup may use all controllers, but has enabled none for its children, as under `systemd-run
/// --scope -p Delegate=yes`.
#[test]
fn a_leader_enables_controllers_if_it_is_alone() {
    let Some(folder) = lock_folder() else { return };
    fs::write(folder.join("cgroup.subtree_control"), "+memory +pids").unwrap();
    let scope = folder.join(format!("test-{}.scope", std::process::id()));
    fs::create_dir(&scope).unwrap();
    let run = |shell: &str| {
        let job = job().yaml("os_sandbox: best-effort");
        let mut command = Command::new("sh");
        let script = format!("echo 0 > \"$1/cgroup.procs\" && shift && {shell}");
        command.args(["-c", &script, "sh"]).arg(&scope).arg(sandmill());
        command.args(["run", "job.yaml", "--job-dir", "job"]).current_dir(job.dir());
        command.env("SANDMILL_CACHE_DIR", root().join("target/test-cache"));
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(cgroups_of_leaders(&scope), Vec::<String>::new());
        assert_eq!(fs::read_to_string(scope.join("cgroup.subtree_control")).unwrap().trim(), "");
        wall(job.dir())
    };
    let alone = run("exec \"$@\"");
    assert!(has_cgroup(&alone), "{alone}");
    // The leader must not move the shell to another cgroup.
    let beside_a_shell = run("\"$@\"; exit $?");
    assert!(!has_cgroup(&beside_a_shell), "{beside_a_shell}");
    assert!(beside_a_shell["missing"].to_string().contains("other processes than this one are in"));
    fs::remove_dir(scope).unwrap();
}

/// Rule W6 (docs/parallel-run-step.md): running out of memory is reported differently from other deaths, and
/// the report names the limit.
#[test]
fn a_worker_ended_by_its_cgroups_limit_is_reported() {
    let Some(folder) = lock_folder() else { return };
    // The leader may kill the worker before the cgroup's limit does, so the test tries several times.
    for _ in 0..5 {
        match is_ended_by_limit(&folder) {
            Some(true) => return,
            Some(false) => {}
            None => {
                eprintln!("not tried: memory is not limited, or the job's folder is in memory");
                return;
            }
        }
    }
    panic!("the limit has never ended a worker");
}

/// Runs a worker that needs too much memory. Returns whether its cgroup's limit ended the worker; `None` if
/// the cgroup has no memory limit.
fn is_ended_by_limit(folder: &Path) -> Option<bool> {
    // One record is never split, however large: reading and decoding it takes three times its size.
    let large = format!("id,text\n1,small\n2,{}\n3,small\n", "x".repeat(192 << 20));
    let running = job_of(GOOD)
        .yaml("inputs: { rows: { path: input, format: csv } }\nmini_batch_size: 100KB")
        .yaml("limits: { memory: 16MB, results: 1MB, read: 1MB }\nos_sandbox: best-effort")
        .yaml("process_count_per_node: 1\nrun_max_try: 1\nerror_threshold: -1")
        .file("input/a.csv", large)
        .start(&[]);
    let prefix = format!("sandmill-{}-", running.pid());
    let ran = running.wait();
    ran.exits_with(0);
    if !wall(ran.dir())["active"].to_string().contains("cgroup (memory") {
        return None;
    }
    ran.says(
        "than its budget of 276.6 MB (limits.memory 16 MB and 260.6 MB for results, reading and \
         decoding); ",
    );
    assert!(ran.log("user/error.txt").contains("out_of_memory"), "{ran}");
    assert_eq!(ran.sorted_output(), [good_row(1)], "{ran}");
    assert!(
        !cgroups_of_leaders(folder).iter().any(|name| name.starts_with(&prefix)),
        "{:?}",
        cgroups_of_leaders(folder)
    );
    let report = "the worker process needed more memory than its budget";
    Some(ran.stderr.contains(report) && ran.stderr.contains("the limit of its cgroup ended it."))
}
