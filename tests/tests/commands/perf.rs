//! The files that a job leaves below `logs/perf`, profiles of guests, and workers that use too much memory.

#![cfg(target_os = "linux")]

use sandmill_tests::{Ran, TestJob, guest};
use serde_json::Value;
use std::fs;

/// A job for one worker with three files, one in each mini-batch. The guest never returns from the
/// first attempt at mini-batch 1. The attempt times out after six seconds.
fn stuck_job() -> TestJob {
    let mut job = TestJob::new(&guest("hostile_files")).yaml(
        "inputs: { texts: input }\n\
         arguments: [--do, loop, --on-batch, '1', --on-attempt, '1']\n\
         mini_batch_size: 1\n\
         process_count_per_node: 1\n\
         run_invocation_timeout: 6",
    );
    for number in 0..3 {
        job = job.file(&format!("input/{number}.txt"), "x");
    }
    job
}

/// The names below `logs/perf/0`, sorted.
fn perf_files(ran: &Ran) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(ran.dir().join("job/logs/perf/0")).into_iter().flatten().flatten() {
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    names
}

/// The lists of processes, as paths with their contents: `os/<yyyymmddhh>/processes_<MM>`, and
/// `<yyyymmddhh>_<what>.txt` in `processes_cpu_memory_usage`.
fn lists(ran: &Ran) -> Vec<(String, String)> {
    let perf = ran.dir().join("job/logs/perf/0");
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(perf.join(folder)).into_iter().flatten().flatten();
        entries.map(|entry| format!("{folder}/{}", entry.file_name().to_string_lossy())).collect()
    };
    let is_stamp = |text: &str| text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let hours = names("os");
    assert!(hours.iter().all(|hour| is_stamp(&hour[3..])), "{hours:?}");
    let mut paths: Vec<String> = hours.iter().flat_map(|hour| names(hour)).collect();
    assert!(paths.iter().all(|path| path[14..].starts_with("processes_")), "{paths:?}");
    paths.extend(names("processes_cpu_memory_usage"));
    let read = |path: String| {
        let text = fs::read_to_string(perf.join(&path)).unwrap_or_default();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Rules A4, F17, F18, F19, K2, T4 (docs/parallel-run-step.md): the files are complete, even if the job ends
/// long before the first interval.
#[test]
fn a_job_writes_resource_samples() {
    let ran = stuck_job().run(&[]);
    ran.exits_with(0);
    assert_eq!(
        perf_files(&ran),
        [
            "machine.json",
            "node_disk_usage.csv",
            "node_resource_usage.csv",
            "os",
            "processes_cpu_memory_usage",
            "processes_resource_usage.csv"
        ],
        "{ran}"
    );
    let node = ran.log("perf/0/node_resource_usage.csv");
    let columns = "Time (UTC),CPU %,Memory Total (MB),Memory Available (MB),Memory Used (MB),\
                   Memory Used %,Disk Reads,Disk Writes,Disk Read (MB),Disk Written (MB),\
                   Network Sent (MB),Network Received (MB),TCP Connections,UDP Connections";
    assert!(node.starts_with(columns), "{node}");
    assert!(node.lines().count() >= 4, "{node}");
    let processes = ran.log("perf/0/processes_resource_usage.csv");
    for name in [",leader,", ",process000,"] {
        assert!(processes.contains(name), "{processes}");
    }
    let columns = "Time (UTC),Disk,Mounted At,Total (MB),";
    let disks = ran.log("perf/0/node_disk_usage.csv");
    assert!(disks.starts_with(columns) && disks.lines().count() >= 2, "{disks}");
    // There is a list of processes for each minute, in a folder for each hour. For each hour, further lists
    // sort the processes by their resource use.
    let lists = lists(&ran);
    for (begin, end) in [("os/", ""), ("processes_", "_cpu.txt"), ("processes_", "_memory.txt")] {
        let mut found =
            lists.iter().filter(|(path, _)| path.starts_with(begin) && path.ends_with(end));
        assert!(found.any(|(_, text)| text.contains("sandmill")), "{begin}*{end}: {lists:#?}");
    }
    let machine: Value = serde_json::from_str(&ran.log("perf/0/machine.json")).unwrap_or_default();
    assert!(machine["memory"].is_u64() && machine["sandmill"].is_string(), "{machine}");
}

/// Rule A4: 0 turns the samples off.
#[test]
fn samples_can_be_turned_off() {
    let ran = stuck_job().yaml("resource_monitor_interval: 0").run(&[]);
    ran.exits_with(0);
    assert!(!ran.has("job/logs/perf"), "{ran}");
}

/// Rules A5, F12: each worker has a profile with the names of the guest's functions. This includes
/// the worker that was killed inside its endless loop, and the worker that replaced it.
#[test]
fn profiles_show_guest_functions() {
    let ran = stuck_job().yaml("profiling_module: cProfile").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.attempts("RUN_TIMEOUT"), ["1, 1"], "{ran}");
    let text = ran.log("sys/node/0/process000.profile.json");
    let profile: Value = serde_json::from_str(&text).unwrap_or_default();
    let samples = profile["threads"][0]["samples"]["length"].as_u64();
    assert!(samples.is_some_and(|samples| samples > 10), "{samples:?} samples: {text}");
    assert!(text.contains("test_guests::harm::harm"), "the endless function: {text}");
    assert!(profile["meta"]["preprocessedProfileVersion"].is_u64(), "{}", profile["meta"]);
    let unprofiled = stuck_job().run(&[]);
    assert!(!unprofiled.has("job/logs/sys/node/0/process000.profile.json"), "{unprofiled}");
}

/// If the leader was killed before it copied the profiles to the logs, a resume copies them.
#[test]
fn profiles_survive_a_killed_leader() {
    let job = stuck_job().yaml("profiling_module: guest");
    let mut running = job.start(&["--set", "run_invocation_timeout=30"]);
    let written = "job/work/process000/profile/process000.profile.json";
    running.until("a profile is written", |running| running.dir().join(written).exists());
    running.kill_leader();
    let job = running.wait().into_job();
    let ran = job.resume(&["--set", "run_invocation_timeout=1"]);
    ran.exits_with(0);
    assert!(ran.has("job/logs/sys/node/0/process000.profile.json"), "{ran}");
}

/// Rules W6, T4: a worker is killed if Sandmill's own code in it, outside the guest, uses too much memory.
/// The report of this failure differs from that of other killed workers. Another worker gets the remaining
/// mini-batches.
#[test]
fn a_worker_that_holds_too_much_memory_is_killed() {
    // One record is never split, however large: reading and decoding it takes three times its size. This
    // record is so large that the leader's watcher notices the worker's memory in time, even on a fast
    // machine.
    let large = format!("id,text\n1,small\n2,{}\n3,small\n", "x".repeat(448 << 20));
    let ran = TestJob::new(&guest("echo_table"))
        .yaml(
            "inputs: { rows: { path: input, format: csv } }\n\
             limits: { memory: 16MB, results: 1MB, read: 1MB }\n\
             mini_batch_size: 100KB\n\
             process_count_per_node: 1\n\
             run_max_try: 1\n\
             error_threshold: -1",
        )
        .file("input/a.csv", large)
        .run(&[]);
    ran.exits_with(0);
    // If workers have their own cgroups, the kernel may be faster than the watcher.
    ran.says("the worker process ").says(
        "than its budget of 276.6 MB (limits.memory 16 MB and 260.6 MB for results, reading and \
         decoding); ",
    );
    assert!(ran.log("user/error.txt").contains("out_of_memory"), "{ran}");
    assert_eq!(ran.sorted_output(), ["3 small"], "{ran}");
}
