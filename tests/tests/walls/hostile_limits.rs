//! Guests that fill the host's disk, logs and handle tables. Each fails with the limit that it
//! exceeds, and the other mini-batches are not affected.

#![cfg(unix)]

use sandmill_tests::{Fate, Ran, good_row, guest, play, wat_module};
use std::fs;

/// Runs a job with acts of `hostile_acts` (see `play`) that all exceed this limit.
fn exceed(limit: &str, words: &'static str, acts: &[&str]) -> Ran {
    let acts: Vec<(&str, Fate)> = acts.iter().map(|act| (*act, Fate::Fails(words))).collect();
    let settings = format!("limits: {{{limit}}}\nprocess_count_per_node: 2");
    play(&guest("hostile_acts"), &settings, &acts, |_, name| format!("{name}: 0"))
}

fn size_below(folder: &std::path::Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_below(&entry.path()),
            metadata => metadata.map_or(0, |metadata| metadata.len()),
        })
        .sum()
}

#[test]
fn one_file_that_fills_the_disk() {
    let acts = ["one-large-file", "one-large-log", "one-sparse-file"];
    let ran = exceed("output: 4 MB", "limits.output allows 4 MB", &acts);
    assert_eq!(fs::read_dir(ran.dir().join("job/output")).unwrap().count(), 1, "{ran}");
    assert!(size_below(&ran.dir().join("job")) < 12 << 20, "{ran}");
}

#[test]
fn a_million_files() {
    let acts = ["many-files", "many-folders", "made-and-removed"];
    let ran = exceed("files: 100", "limits.files allows", &acts);
    assert_eq!(fs::read_dir(ran.dir().join("job/output")).unwrap().count(), 1, "{ran}");
}

/// The result of an act that exceeds no limit.
fn succeeds(index: usize, act: &str) -> Fate {
    Fate::Gives(vec![format!("{:03}-{act}.txt: 0", 2 * index + 1)])
}

/// Each act stays within the limits of a call, but leaves something in the log folder.
#[test]
fn a_log_folder_that_grows_call_by_call() {
    let full = || Fate::Fails("limits.files allows 4 files and folders for each worker in the log");
    // A worker with an endless call is killed. The worker that replaces it may use only the rest of
    // the limit.
    let killed = || Fate::Fails("run took longer");
    let acts = [
        ("log-file", succeeds(0, "log-file")),
        ("log-file", succeeds(1, "log-file")),
        ("loop", killed()),
        ("log-file", succeeds(3, "log-file")),
        ("log-file", succeeds(4, "log-file")),
        ("log-file", full()),
        ("moved-to-logs", succeeds(6, "moved-to-logs")),
        ("loop", killed()),
        ("log-file", full()),
        ("log-file", full()),
    ];
    let settings = "limits: {files: 4}\nprocess_count_per_node: 1\nrun_invocation_timeout: 2";
    let ran = play(&guest("hostile_acts"), settings, &acts, |_, name| format!("{name}: 0"));
    let logs = ran.dir().join("job/logs/user/entry_script_log/0/files");
    assert_eq!(fs::read_dir(logs).unwrap().count(), 4, "{ran}");

    let full = || Fate::Fails("limits.output allows 1 MB for each worker in the log folder");
    let more = |index| ("log-more", succeeds(index, "log-more"));
    let acts = [("log-text", succeeds(0, "log-text")), more(1), more(2), ("log-more", full())];
    let settings = "limits: {output: 1 MB}\nprocess_count_per_node: 1";
    play(&guest("hostile_acts"), settings, &acts, |_, name| format!("{name}: 0"));
}

/// The guest replaces a status file by renaming each new version over the previous one. The file counts once.
#[test]
fn a_status_file_that_is_rewritten_counts_once() {
    let acts: Vec<_> = (0..20).map(|n| ("log-status", succeeds(n, "log-status"))).collect();
    let settings = "limits: {output: 1 MB, files: 2}\nprocess_count_per_node: 1";
    play(&guest("hostile_acts"), settings, &acts, |_, name| format!("{name}: 0"));
}

#[test]
fn floods_of_logs() {
    let acts = ["log-flood", "stdout-flood", "stderr-flood", "one-line"];
    let ran = exceed("logs: 1 MB", "limits.logs allows 1 MB", &acts);
    assert!(size_below(&ran.dir().join("job/logs")) < 8 << 20, "{ran}");
}

#[test]
fn more_handles_than_allowed() {
    exceed("handles: 64", "limits.handles allows 64", &["many-open-files"]);
    let handles = || Fate::Fails("limits.handles allows 64");
    let acts =
        [("many-pollables", handles()), ("many-streams", handles()), ("many-folders", handles())];
    let settings = "limits: {handles: 64}\nprocess_count_per_node: 1";
    play(&guest("hostile_calls"), settings, &acts, |_, name| name.to_owned());
}

/// An endless stream of zeroes, which costs the guest nothing.
#[test]
fn endless_zeroes() {
    let acts = [("zeroes", Fate::Fails("limits.logs allows 1 MB"))];
    let settings = "limits: {logs: 1 MB}\nprocess_count_per_node: 1";
    play(&guest("hostile_calls"), settings, &acts, |_, name| name.to_owned());
}

/// A row of 64 MB, a path of 64 MB and a log line of 64 MB.
#[test]
fn one_row_and_one_call_that_are_too_large() {
    let call = || Fate::Fails("limits.transfer allows 2 MB");
    let acts = [("row", Fate::Fails("limits.row allows 1 MB")), ("path", call()), ("log", call())];
    let text = r#"(module
        (import "sandmill:entry/host@0.2.0" "read" (func $read (param i32 i32 i32)))
        (import "sandmill:entry/host@0.2.0" "log" (func $log (param i32 i32 i32)))
        COMMON GOOD
        ;; ok, rows, and the list of one text of 64 MB.
        (data (i32.const 512) "\00\00\00\00\00\00\00\00\10\02\00\00\01\00\00\00")
        (data (i32.const 528) "\00\00\01\00\00\00\00\04")
        (func RUN
          (if (i64.eqz (i64.and (local.get $id) (i64.const 1)))
            (then (return (call $good (local.get $id)))))
          (drop (memory.grow (i32.const 1100)))
          (if (i64.eq (local.get $id) (i64.const 1)) (then (return (i32.const 512))))
          (if (i64.eq (local.get $id) (i64.const 3))
            (then (call $read (i32.const 65536) (i32.const 0x4000000) (i32.const 600))))
          (call $log (i32.const 0) (i32.const 65536) (i32.const 0x4000000))
          (call $good (local.get $id))))"#;
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.wasm");
    fs::write(&guest, wat_module(text)).unwrap();
    let settings = "limits: {memory: 1 GB, row: 1 MB, transfer: 2 MB}\nprocess_count_per_node: 1";
    play(&guest, settings, &acts, |id, _| good_row(id));
}

/// If a guest prints a lot within the limits, Sandmill keeps the beginning and the newest part.
#[test]
fn floods_that_are_allowed_are_cut() {
    let acts: Vec<(&str, Fate)> = ["log-flood", "stdout-flood", "stderr-flood", "one-line"]
        .iter()
        .enumerate()
        .map(|(n, act)| (*act, Fate::Gives(vec![format!("{:03}-{act}.txt: 0", 2 * n + 1)])))
        .collect();
    let settings = "limits: {logs: 1 GB}\nprocess_count_per_node: 1";
    let ran = play(&guest("hostile_acts"), settings, &acts, |_, name| format!("{name}: 0"));
    // For each of stdout, stderr and the log, the first 16 MB and the newest 16 to 32 MB stay.
    assert!(size_below(&ran.dir().join("job/logs/user")) < 150 << 20, "{ran}");
}
