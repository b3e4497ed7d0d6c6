//! What other users of the machine, and jobs of other tenants, can see of a job and do to it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn texts() -> TestJob {
    TestJob::new(&guest("echo_files"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("in/a.txt", "1")
        .file("in/b.txt", "22")
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files_below(&entry.path(), files),
            false => files.push(entry.path()),
        }
    }
}

/// Arguments on the command line may be secrets, so only the owner can read the files that contain them.
/// Outputs have the permissions that the umask gives.
#[test]
fn files_with_arguments_are_readable_only_by_the_owner() {
    let ran = texts()
        .yaml("output: results\nparent: parent\ncopy_logs_to_parent: true\npush_metrics_to_parent: true")
        .run(&["--set", "arguments=[--key, s3cr3t]", "--set", "metrics_name_prefix=s3cr3t_"]);
    ran.exits_with(0);
    assert_eq!(mode(&ran.dir().join("job")), 0o700);
    let mut files = Vec::new();
    for folder in ["job", "parent"] {
        files_below(&ran.dir().join(folder), &mut files);
    }
    let has_secret =
        |file: &PathBuf| fs::read(file).unwrap().windows(6).any(|part| part == b"s3cr3t");
    let secret_files: Vec<_> = files.iter().filter(|file| has_secret(file)).collect();
    assert!(secret_files.len() >= 3, "the journal, job.json and metrics: {secret_files:?}");
    let open: Vec<_> = secret_files.iter().filter(|file| mode(file) & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");
    let ordinary_file = ran.dir().join("usual");
    fs::write(&ordinary_file, "").unwrap();
    assert_eq!(mode(&ran.dir().join("results/parallel_run_step.txt")), mode(&ordinary_file));
    let left: Vec<_> = files.iter().filter(|file| file.ends_with(".sandmill-lock")).collect();
    assert!(left.is_empty(), "{left:?}");
    // An earlier version of Sandmill gave the job directory other permissions. A run corrects them.
    let job = ran.dir().join("job");
    fs::set_permissions(&job, PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(job.join("journal.sqlite"), PermissionsExt::from_mode(0o644)).unwrap();
    let again = ran.into_job().run(&["--overwrite"]);
    again.exits_with(0);
    let job = again.dir().join("job");
    assert_eq!([mode(&job), mode(&job.join("journal.sqlite"))], [0o700, 0o600]);
}

/// If two jobs have the same name and the same `parent`, the second job does not overwrite the copies of the
/// first job.
#[test]
fn copies_in_a_parent_are_kept_from_other_jobs() {
    let parent = "parent: parent\ncopy_logs_to_parent: true\npush_metrics_to_parent: true";
    let first = texts().yaml(parent).run(&[]);
    first.exits_with(0);
    let copies = |dir: &Path| {
        let mut files = Vec::new();
        files_below(&dir.join("parent"), &mut files);
        let mut copies: Vec<_> =
            files.iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect();
        copies.sort();
        copies
    };
    let before = copies(first.dir());
    assert!(first.text("parent/logs/test/metrics.jsonl").contains("\"rows\""));
    let second = first.into_job().command(&["run", "job.yaml", "--job-dir", "second"]);
    second.exits_with(2);
    assert_snapshot!(second.redacted(), @"error: parent: [DIR]/parent/logs/test holds files that another job, or the same job in another job directory, copied there, and Sandmill does not overwrite them: name another folder for `parent`, give the job another name, or move that folder away");
    assert!(copies(second.dir()) == before && !second.has("second"), "{second}");
    let named = ["run", "job.yaml", "--job-dir", "second", "--set", "name=second"];
    let named = second.into_job().command(&named);
    named.exits_with(0);
    assert!(named.has("parent/logs/second/job_result.txt"), "{named}");
    // If a new run is refused because of its `parent`, the earlier results stay.
    let lone = ["run", "job.yaml", "--job-dir", "lone", "--set", "name=lone"];
    let lone = named.into_job().command(&lone);
    lone.exits_with(0);
    let results = lone.text("lone/job.json");
    fs::create_dir_all(lone.dir().join("other/logs/lone/sys")).unwrap();
    let elsewhere = ["--set", "name=lone", "--set", "parent=other", "--overwrite"];
    let elsewhere = [&["run", "job.yaml", "--job-dir", "lone"], &elsewhere[..]].concat();
    let named = lone.into_job().command(&elsewhere);
    named.exits_with(2);
    assert!(named.text("lone/job.json") == results && named.has("lone/output"), "{named}");
    // The same job may replace its own copies.
    let again = named.into_job().run(&["--overwrite"]);
    again.exits_with(0);
    let pushed = again.text("parent/logs/test/metrics.jsonl");
    assert_eq!(pushed.matches("\"name\":\"rows\"").count(), 2, "{pushed}");
}

/// Opening a fifo would block until a process writes to it, and hashing 8 TB would take far too long.
#[test]
fn fifos_and_huge_files_are_refused_at_once() {
    let job = || {
        let job = texts().file("models/digits.onnx", "m");
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        for fifo in ["fifo", "models/fifo.onnx", "crate.wasm"] {
            rustix::fs::mknodat(rustix::fs::CWD, job.path(fifo), kind, mode, 0).unwrap();
        }
        fs::File::create(job.path("large")).unwrap().set_len(8 << 40).unwrap();
        fs::File::create(job.path("models/large.onnx")).unwrap().set_len(8 << 40).unwrap();
        job
    };
    // Build the entry script before the clock starts.
    drop(job());
    let began = Instant::now();
    let mut messages = String::new();
    for command in [
        &["run", "fifo"][..],
        &["run", "/dev/zero"],
        &["run", "large"],
        &["run", "job.yaml", "--policy", "fifo"],
        &["run", "job.yaml", "--datastores", "fifo"],
        &["run", "job.yaml", "--set", "entry_script=fifo"],
        &["run", "job.yaml", "--set", "entry_script=large"],
        &["run", "job.yaml", "--set", "models.m=models/fifo.onnx"],
        &["run", "job.yaml", "--set", "models.m=models/large.onnx"],
        &["plan", "fifo"],
        &["check", "fifo"],
        &["check", "large"],
        &["inspect", "fifo"],
        &["build", "crate.wasm"],
        &["model", "register", "m", "models/fifo.onnx"],
    ] {
        let job = job().env("SANDMILL_REGISTRY", "registry.db");
        let ran = job.command(command);
        ran.exits_with(2);
        let first = ran.redacted().lines().next().unwrap_or_default().to_owned();
        messages += &format!("{}: {first}\n", command.join(" "));
    }
    assert_snapshot!(messages, @"
    run fifo: error: fifo: it is not a regular file but a named pipe; name a job file
    run /dev/zero: error: /dev/zero: it is not a regular file but a device; name a job file
    run large: error: large: is larger than 1 MB, the limit for a job file
    run job.yaml --policy fifo: error: fifo: it is not a regular file but a named pipe; name a policy file
    run job.yaml --datastores fifo: error: fifo: it is not a regular file but a named pipe; name a file of datastores
    run job.yaml --set entry_script=fifo: error: the entry script [DIR]/fifo cannot be used: it is not a regular file but a named pipe; name a component (.wasm), a core module (.wasm) or the folder of a guest crate or of C sources
    run job.yaml --set entry_script=large: error: the entry script [DIR]/large has 8192 GB, but an entry script may have at most 1 GB; check the path
    run job.yaml --set models.m=models/fifo.onnx: error: --set models.m: models.m.path: [DIR]/models/fifo.onnx is neither a file nor a folder; name an ONNX file, or a folder with one
    run job.yaml --set models.m=models/large.onnx: error: --set models.m: models.m.path: [DIR]/models/large.onnx has 8192 GB, more than limits.models (1 GB) lets a worker load; write limits.models: 8388608 MB, or more
    plan fifo: error: fifo: it is not a regular file but a named pipe; name a job file
    check fifo: error: fifo: it is not a regular file but a named pipe
    check large: error: large: it is larger than 1 GB, the limit for entry scripts
    inspect fifo: error: fifo: it is not a regular file but a named pipe; name a component (.wasm) or a core module
    build crate.wasm: error: crate.wasm: it is not a regular file but a named pipe
    model register m models/fifo.onnx: error: [DIR]/models/fifo.onnx is neither a file nor a folder; name an ONNX file, or a folder with one
    ");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// Another user who may read the job's folders holds locks on them. The job runs anyway.
#[test]
fn a_lock_of_another_user_blocks_no_job() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: only root can start a process of another user");
        return;
    }
    let job = texts().yaml("output: results");
    let folders = ["job", "results"].map(|name| job.path(name));
    let mut script = String::new();
    for (number, folder) in folders.iter().enumerate() {
        fs::create_dir(folder).unwrap();
        script += &format!("exec {}< '{}'; flock -x {0}; ", number + 8, folder.display());
    }
    fs::set_permissions(job.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut other_user = std::process::Command::new("sh");
    std::os::unix::process::CommandExt::uid(&mut other_user, 65534);
    let other_user =
        other_user.args(["-c", &format!("{script}echo held; exec sleep 60")]).current_dir("/");
    let mut other_user = other_user.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let held = std::io::Read::read_exact(other_user.stdout.as_mut().unwrap(), &mut [0; 4]);
    if held.is_ok() {
        job.run(&[]).exits_with(0);
    } else {
        eprintln!("not tried: there is no flock");
    }
    other_user.kill().unwrap();
    other_user.wait().unwrap();
}
