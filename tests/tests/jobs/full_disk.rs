//! Full disks, and limits on the size of files.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sandmill_tests::{Ran, Server, TestJob, guest};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system, which is unmounted when this value is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of this size. `None` if the user may not mount file systems: only root may.
    fn mount(folder: &Path, kilobytes: usize) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={kilobytes}k");
        let arguments = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        let mounted = Command::new("mount").args(arguments).arg(folder).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder.to_owned()));
        }
        eprintln!("skipped: this user cannot mount file systems");
        None
    }
}

impl SmallDisk {
    /// Sets a larger size.
    fn grow(&self, kilobytes: usize) {
        let size = format!("remount,size={kilobytes}k");
        let grown = Command::new("mount").args(["-o", &size]).arg(&self.0).status().unwrap();
        assert!(grown.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A job over four files. For the second file, the guest returns a row of 64 MB.
fn job() -> TestJob {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\n\
         arguments: [--do, huge-rows, --on-batch, '1']\n\
         mini_batch_size: 1\n\
         process_count_per_node: 1\n\
         run_max_try: 1",
    );
    (0..4).fold(job, |job, number| job.file(&format!("input/f{number}.txt"), "x"))
}

/// Fails if the output of [`job`] does not have each row once.
fn assert_each_row_once(ran: &Ran) {
    let output = ran.text("results/parallel_run_step.txt");
    let mut lengths: Vec<usize> = output.lines().map(str::len).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, ["f0.txt: 1".len(), 9, 9, 64 << 20], "{ran}");
}

/// A full disk is not the fault of an item. So the job stops without failed items, even if it tolerates
/// failures.
#[test]
fn no_room_for_a_part_file() {
    let job = job().yaml("output: results");
    let Some(disk) = SmallDisk::mount(&job.path("job"), 4000) else { return };
    // A resource sample on the full disk would add a note, so turn the samples off.
    let ran = job.run(&["--set", "error_threshold=-1", "--set", "resource_monitor_interval=0"]);
    ran.exits_with(42);
    // Other messages depend on whether the next mini-batch is already done.
    let messages = ran.messages();
    assert_snapshot!(messages.lines().find(|line| line.starts_with("Job test")).unwrap_or_default(), @"Job test failed after [TIME]: cannot write rows to the part file [DIR]/job/parts/[WORKER].part: No space left on device (os error 28); free some space there");
    assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
    disk.grow(100_000);
    let ran = ran.into_job().resume(&[]);
    ran.exits_with(0);
    assert_each_row_once(&ran);
}

#[test]
fn no_room_for_the_output_file() {
    let job = job().yaml("output: results");
    let Some(disk) = SmallDisk::mount(&job.path("results"), 4000) else { return };
    let ran = job.run(&["--set", "error_threshold=-1"]);
    ran.exits_with(42);
    // Other messages depend on how many mini-batches are already done.
    let messages = ran.messages();
    assert_snapshot!(messages.lines().find(|line| line.starts_with("Job test")).unwrap_or_default(), @"Job test failed after [TIME]: cannot copy rows to the output file [DIR]/results/parallel_run_step.txt: No space left on device (os error 28)");
    // With free space, the job can be run from the beginning.
    let job = ran.into_job();
    drop(disk);
    let ran =
        job.run(&["--overwrite", "--set", "error_threshold=-1", "--set", "limits.results=1MB"]);
    ran.exits_with(0);
    assert_eq!(ran.text("results/parallel_run_step.txt").lines().count(), 3, "{ran}");
}

/// A resume does not repeat the work that was done before the disk was full.
#[test]
fn a_job_resumes_once_its_output_has_room() {
    let job = job().yaml("output: results");
    let Some(disk) = SmallDisk::mount(&job.path("results"), 4000) else { return };
    let ran = job.run(&[]);
    ran.exits_with(42).says("No space left on device");
    disk.grow(100_000);
    let ran = ran.into_job().resume(&[]);
    ran.exits_with(0);
    assert_each_row_once(&ran);
    let state: serde_json::Value = serde_json::from_str(&ran.text("job/job.json")).unwrap();
    assert!(state["result"]["restored_mini_batches"].as_u64() > Some(0), "{ran}");
}

/// The disk with the journal, rows and logs becomes full while the job runs.
#[test]
fn a_job_resumes_once_its_journal_has_room() {
    let job = TestJob::new(&guest("echo_files")).yaml(
        "inputs: { texts: input }\nmini_batch_size: 1\nprocess_count_per_node: 2\noutput: results",
    );
    let job = (0..1500).fold(job, |job, n| job.file(&format!("input/f{n:04}.txt"), "x"));
    let Some(disk) = SmallDisk::mount(&job.path("job"), 1000) else { return };
    let ran = job.run(&[]);
    ran.exits_with(42);
    // Although the disk is full, the result and the advice are recorded.
    let state: serde_json::Value = serde_json::from_str(&ran.text("job/job.json")).unwrap();
    assert_eq!(state["status"], "failed", "{ran}");
    // Any of the files on the disk may be the first to fail.
    let messages = ran.log("job_result.txt").to_lowercase();
    assert!(messages.contains("no space left on"), "{ran}");
    assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
    let status = ran.into_job().command(&["status", "job"]);
    assert!(status.redacted_stdout().contains("failed"), "{status}");
    disk.grow(20_000);
    let ran = status.into_job().resume(&[]);
    ran.exits_with(0);
    let mut rows: Vec<String> =
        ran.text("results/parallel_run_step.txt").lines().map(str::to_owned).collect();
    rows.sort();
    let expected: Vec<String> = (0..1500).map(|n| format!("f{n:04}.txt: 1")).collect();
    assert!(rows == expected, "{ran}");
    // The reports include the mini-batches that were done before.
    let report = ran.log("sys/job_report/processed_mini-batches.csv");
    let done: BTreeSet<&str> = report
        .lines()
        .filter(|line| line.contains(",RUN_DONE,"))
        .filter_map(|line| line.split(',').next())
        .collect();
    let missing: Vec<String> =
        (0..1500).map(|n| n.to_string()).filter(|id| !done.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}\n{ran}");
    assert!(!ran.has("job/work/reserve"), "{ran}");
}

/// If the disk has no room for an object, the job stops, and the object does not count as failed. Earlier
/// mini-batches are done, and a resume does the rest. Objects of a file input are downloaded one by one.
/// Those of a table are all downloaded at the start.
#[test]
fn no_room_for_the_objects_of_a_store() {
    let moto = Server::moto();
    moto.put("/box", "");
    (0..4).for_each(|n| {
        moto.put(&format!("/box/in/{n}.csv"), format!("n\n{}\n", n.to_string().repeat(100_000)));
    });
    for (script, input) in
        [("echo_files", "s3://box/in/"), ("echo_table", "{ path: s3://box/in/, format: csv }")]
    {
        let job = TestJob::new(&guest(script)).yaml(&format!(
            "inputs: {{ t: {input} }}\nmini_batch_size: 1\nprocess_count_per_node: 1\noutput: results\n\
             error_threshold: -1\narguments: [--rows]"
        ));
        let job = moto.opened_for(job.datastores("1 MB", ""));
        let Some(disk) = SmallDisk::mount(&job.path("objects"), 300) else { return };
        fs::set_permissions(&disk.0, fs::Permissions::from_mode(0o700)).unwrap();
        let planned = job.command(&["plan", "job.yaml"]);
        if script == "echo_table" {
            planned
                .exits_with(2)
                .says("No space left on device (os error 28); free some space there");
        }
        let ran = planned.into_job().run(&[]);
        ran.exits_with(42).says("No space left on device (os error 28); free some space there");
        assert!(!ran.has("job/logs/failed_items.csv"), "{ran}");
        let slot = fs::read_dir(ran.dir().join("objects")).unwrap().next().unwrap().unwrap();
        let parts = fs::read_dir(slot.path().join("part")).unwrap();
        assert_eq!(parts.count(), 0, "{ran}");
        disk.grow(2000);
        let ran = ran.into_job().resume(&[]);
        ran.exits_with(0).says("mini-batches  4");
        let output = ran.text("results/parallel_run_step.txt");
        let mut rows: Vec<&str> = output.lines().collect();
        rows.sort_unstable();
        let expected = [0, 1, 2, 3].map(|n| match script {
            "echo_files" => format!("{n}.csv: 100003"),
            _ => n.to_string().repeat(100_000),
        });
        assert!(rows == expected, "{ran}");
    }
}

/// The numbers that follow the pattern `prefix` in a text.
fn ids(text: &str, prefix: &str) -> BTreeSet<u64> {
    let number = regex::Regex::new(&format!("{prefix}(\\d+)")).unwrap();
    number.captures_iter(text).map(|found| found[1].parse().unwrap()).collect()
}

/// Failures on a full disk are written at the end of the job, into space that was reserved for them.
#[test]
fn failures_on_a_full_disk_are_reported_at_the_end() {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\narguments: [--do, error]\nmini_batch_size: 1\nrun_max_try: 1\n\
         error_threshold: -1\nprocess_count_per_node: 2\noutput: results",
    );
    let job = (0..1500).fold(job, |job, n| job.file(&format!("input/f{n:04}.txt"), "x"));
    let Some(_disk) = SmallDisk::mount(&job.path("job"), 1000) else { return };
    let ran = job.run(&[]);
    ran.exits_with(42).says("no space left on the disk that holds the journal");
    let events = ran.log("sys/events.jsonl");
    let failed: String =
        events.lines().filter(|line| line.contains("\"attempt_finished\"")).collect();
    let failed = ids(&failed, "\"report\":\\{\"id\":");
    let in_error_files =
        ["process000", "process001"].map(|name| ran.log(&format!("user/error/0/{name}.txt")));
    assert!(!failed.is_empty(), "{ran}");
    // The disk is small, so the reserved space may be too small for the last events. The error
    // files may therefore name more failures than the events, but never fewer.
    let in_error_files = ids(&in_error_files.concat(), "mini-batch ");
    let missing: Vec<_> = failed.difference(&in_error_files).collect();
    assert!(missing.is_empty(), "{missing:?}\n{ran}");
}

/// The leader reaches its limit on the size of files (`ulimit -f`), although the disk has free space.
#[test]
fn a_job_resumes_after_a_file_size_limit() {
    let job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\narguments: [--do, pause]\nmini_batch_size: 1\n\
         process_count_per_node: 1",
    );
    let job = (0..3).fold(job, |job, n| job.file(&format!("input/f{n}.txt"), "x"));
    let mut running = job.start(&[]);
    running.until("the first mini-batch is done", |running| {
        fs::metadata(running.dir().join("job/output/parallel_run_step.txt"))
            .is_ok_and(|file| file.len() > 0)
    });
    let leader = Pid::from_raw(running.pid().cast_signed());
    prlimit(leader, Resource::Fsize, Rlimit { current: Some(8), maximum: Some(8) }).unwrap();
    let ran = running.wait();
    ran.exits_with(42).says("File too large");
    let ran = ran.into_job().resume(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["f0.txt: 1", "f1.txt: 1", "f2.txt: 1"], "{ran}");
}
