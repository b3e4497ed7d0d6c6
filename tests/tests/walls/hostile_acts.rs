//! Guests that misuse what they were granted: results, messages, folders, calls to the host, and time.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Fate, TestJob, guest, play};
use std::fs;

fn gives(rows: &[&str]) -> Fate {
    Fate::Gives(rows.iter().map(|row| row.to_string()).collect())
}

/// The row of a good mini-batch of `hostile_acts`.
fn size_row(_: usize, name: &str) -> String {
    format!("{name}: 0")
}

/// The row of a good mini-batch of `hostile_calls`.
fn name_row(_: usize, name: &str) -> String {
    name.to_owned()
}

#[test]
fn forged_results_and_messages() {
    let fails = Fate::Fails;
    let acts = [
        ("forge-then-trap", fails("trapped in run")),
        ("forge-then-exit", fails("ended itself in run, with exit code 0")),
        ("forge-then-error", fails("a failure after forged results")),
        // Rows are data: Sandmill does not restrict their content.
        ("row-with-escapes", gives(&["\x1b[2J\x1b]0;owned\x07\u{9b}31mforged"])),
        ("row-with-line-end", fails("holds a line break")),
        ("error-with-escapes", fails("forged")),
        ("panic-with-escapes", fails("panicked in run")),
        ("outcome-with-escapes", fails("forged")),
        ("log-with-escapes", gives(&["017-log-with-escapes.txt: 0"])),
        ("error-of-many-lines", fails("line")),
    ];
    let ran = play(&guest("hostile_acts"), "", &acts, size_row);
    assert!(!ran.has("job/output/forged.csv") && !ran.has("job/output/made"), "{ran}");
}

/// The guest renames, removes and links the output folder, uses reserved names in it, and tries to reach
/// other folders in every way.
#[test]
fn misuse_of_granted_and_foreign_folders() {
    let fails = Fate::Fails;
    let acts = [
        ("remove-output", gives(&["001-remove-output.txt: 0"])),
        ("rename-output", gives(&["003-rename-output.txt: 0"])),
        ("link-loop", fails("not permitted")),
        ("link-to-folder", fails("not permitted")),
        ("two-names", fails("not permitted")),
        ("row-file", fails("choose another name")),
        ("staging", gives(&["013-staging.txt: 0"])),
        ("write-inputs", gives(&["015-write-inputs.txt: 0"])),
        ("proc", gives(&["017-proc.txt: 0"])),
        ("made-and-removed", gives(&["019-made-and-removed.txt: 0"])),
        ("many-links", fails("not permitted")),
    ];
    let ran = play(&guest("hostile_acts"), "process_count_per_node: 3", &acts, size_row);
    let published = fs::read_dir(ran.dir().join("job/output")).unwrap().count();
    assert_eq!(published, 1, "{ran}");
    for file in fs::read_dir(ran.dir().join("in")).unwrap() {
        let metadata = file.unwrap().metadata().unwrap();
        assert!(metadata.len() == 0 && metadata.modified().unwrap() > std::time::UNIX_EPOCH);
    }
}

/// Calls of WASI that the standard library would never make.
#[test]
fn calls_that_ask_for_too_much() {
    let fails = Fate::Fails;
    // The guest makes six calls, which all fail with this code.
    const TOO_LONG: &str = "name-too-long name-too-long name-too-long name-too-long name-too-long \
                            name-too-long";
    let acts = [
        ("random", fails("exceeds limit")),
        ("random-terabyte", fails("exceeds limit")),
        ("insecure-random", fails("exceeds limit")),
        ("poll-nothing", fails("failed in run: empty poll list")),
        ("poll-one-thousands-of-times", fails("the whole mini-batch")),
        ("write-beyond-permit", gives(&["011-write-beyond-permit.txt"])),
        ("read-stdin", fails("stdin: Err(StreamError::Closed)")),
        ("environment", gives(&["015-environment.txt"])),
        ("read-everything", gives(&["017-read-everything.txt"])),
        ("write-far-out", fails("the whole mini-batch")),
        ("stream-far-out", fails("the whole mini-batch")),
        ("open-upwards", gives(&["023-open-upwards.txt"])),
        ("raise-rights", gives(&["025-raise-rights.txt"])),
        ("many-pollables", fails("the whole mini-batch")),
        ("many-streams", fails("the whole mini-batch")),
        ("many-folders", fails("the whole mini-batch")),
        ("zeroes-at-once", fails("the whole mini-batch")),
        ("too-long", fails(TOO_LONG)),
    ];
    let settings = "limits: {memory: 64 MB}\nprocess_count_per_node: 1";
    play(&guest("hostile_calls"), settings, &acts, name_row);
}

/// The timeout ends a call that waits or computes without end, and the worker is replaced.
#[test]
fn endless_calls() {
    let late = || Fate::Fails("run took longer than run_invocation_timeout (1 s)");
    let acts = [("loop", late()), ("call-loop", late()), ("sleep", late())];
    let settings = "run_invocation_timeout: 1\nprocess_count_per_node: 2";
    play(&guest("hostile_acts"), settings, &acts, size_row);
    let acts = [("poll-for-ever", late()), ("poll-again", late())];
    play(&guest("hostile_calls"), settings, &acts, name_row);
}

/// The worker gives the memory of failed instances back to the machine while it continues to run.
#[cfg(target_os = "linux")]
#[test]
fn broken_instances_give_their_memory_back() {
    const BROKEN: usize = 12;
    let mut job = TestJob::new(&guest("hostile_acts"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nrun_max_try: 1\nerror_threshold: -1")
        .yaml("process_count_per_node: 1\nlimits: {memory: 100 MB}")
        .watched();
    for id in 0..BROKEN {
        job = job.file(&format!("in/{id:03}-fill-and-trap.txt"), "");
    }
    let mut running = job.file("in/999-pause.txt", "").start(&[]);
    running.until("the guest pauses", |running| {
        let log = running.dir().join("job/logs/user/stdout/0/process000.stdout.txt");
        fs::read_to_string(log).is_ok_and(|text| text.contains("pausing"))
    });
    let held: Vec<u64> =
        running.children().iter().map(|(pid, _)| private_megabytes(*pid)).collect();
    let ran = running.wait();
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.sorted_output(), ["999-pause.txt: 0"]);
    assert_eq!(ran.reasons().len(), BROKEN, "{ran}");
    assert!(!held.is_empty() && held.iter().all(|held| *held < 200), "{held:?} MB\n{ran}");
}

/// The private memory of a process, in MB.
#[cfg(target_os = "linux")]
fn private_megabytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
