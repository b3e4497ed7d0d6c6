//! The limits of an instance of the entry script, and the messages when an instance exceeds a limit.
//! `hostile_init.rs` tests the timeout of `shutdown`.

#![cfg(unix)]

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest, redact};

/// A job of one mini-batch with one file of 2 MB.
fn job(limit: &str, settings: &str) -> TestJob {
    TestJob::new(&guest("breaks_limits"))
        .yaml(&format!(
            "inputs: {{ texts: input }}\narguments: [--do, {limit}]\nmini_batch_size: 1\n\
             process_count_per_node: 1\nrun_max_try: 1"
        ))
        .yaml(settings)
        .file("input/a.txt", "x".repeat(2 << 20))
}

/// The kind of the failure, and its message.
fn failure(limit: &str, settings: &str) -> String {
    let ran = job(limit, settings).run(&[]);
    ran.exits_with(42);
    let line = ran.stderr.lines().find_map(|line| line.strip_prefix("mini-batch 0, attempt 1 ("));
    let Some((_, message)) = line.and_then(|line| line.split_once("): ")) else {
        panic!("no message\n{ran}");
    };
    let table = ran.log("sys/job_report/processed_mini-batches.csv");
    let kind = table.lines().last().and_then(|row| row.split(',').nth(12)).unwrap_or_default();
    assert!(table.contains(&message[..30]), "{table}");
    assert!(ran.log("failed_items.csv").contains(&message[..30]), "{ran}");
    format!("{limit} {kind}: {}\n", redact(&without_written_size(message), ran.dir()))
}

/// Redacts the number of written bytes, which depends on how the guest's libraries split their writes.
fn without_written_size(message: &str) -> String {
    match message.split_once("the entry script wrote ") {
        Some((start, end)) => {
            let end = end.split_once(". ").map_or("", |(_, end)| end);
            format!("{start}the entry script wrote [SIZE]. {end}")
        }
        None => message.to_owned(),
    }
}

#[test]
fn each_limit_has_its_failure() {
    let messages: String = [
        ("memory", "limits: { memory: 16 MB }"),
        ("stack", "limits: { stack: 64 KB }"),
        ("fuel", "limits: { fuel: 1000000 }"),
        ("read", "limits: { read: 1 MB }"),
        ("results", "limits: { results: 1 MB }"),
        ("row", "limits: { row: 100 KB }"),
        ("stdout", "limits: { logs: 1 MB }"),
        ("stderr", "limits: { logs: 1 MB }"),
        ("log", "limits: { logs: 1 MB }"),
        ("one-line", "limits: { logs: 1 MB }"),
        ("output", "limits: { output: 1 MB }"),
        ("output-append", "limits: { output: 1 MB }"),
        ("output-size", "limits: { output: 1 MB }"),
        ("output-hole", "limits: { output: 1 MB }"),
        ("files", "limits: { files: 10 }"),
        ("folders", "limits: { files: 1 }"),
        ("handles", "limits: { handles: 100 }"),
        ("transfer", "limits: { transfer: 1 MB }"),
        ("time", "run_invocation_timeout: 1"),
    ]
    .map(|(limit, settings)| failure(limit, settings))
    .concat();
    assert_snapshot!(messages, @"
    memory out_of_memory: the entry script ran out of memory in run: limits.memory allows 16 MB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    stack trap: the entry script's stack overflowed in run: limits.stack allows 64 KB. Use less recursion, or raise the limit
    fuel out_of_fuel: the entry script used up its fuel in run: limits.fuel allows 1000000 for one call. Raise the limit, or look for a loop that does not end
    read script_error: /inputs/texts/a.txt: it has 2097152 bytes, more than limits.read allows (1 MB)
    results bad_results: run returned rows of 4.0 MB, and limits.results allows 1 MB. Raise the limit, or make mini_batch_size smaller
    row over_limit: limits.row allows 100 KB for one row; row 1 (counted from 0) of what run returned has 1 MB. Make its rows smaller, or raise the limit
    stdout over_limit: limits.logs allows 1 MB for stdout, stderr and the log of one call; in run the entry script wrote [SIZE]. Have it print less, or raise the limit
    stderr over_limit: limits.logs allows 1 MB for stdout, stderr and the log of one call; in run the entry script wrote [SIZE]. Have it print less, or raise the limit
    log over_limit: limits.logs allows 1 MB for stdout, stderr and the log of one call; in run the entry script wrote [SIZE]. Have it print less, or raise the limit
    one-line over_limit: limits.logs allows 1 MB for stdout, stderr and the log of one call; in run the entry script wrote [SIZE]. Have it print less, or raise the limit
    output over_limit: limits.output allows 1 MB for the files of one call; in run the entry script wrote [SIZE]. Have it write less, make mini_batch_size smaller, or raise the limit
    output-append over_limit: limits.output allows 1 MB for the files of one call; in run the entry script wrote [SIZE]. Have it write less, make mini_batch_size smaller, or raise the limit
    output-size over_limit: limits.output allows 1 MB for the files of one call; in run the entry script wrote [SIZE]. Have it write less, make mini_batch_size smaller, or raise the limit
    output-hole over_limit: limits.output allows 1 MB for the files of one call; in run the entry script wrote [SIZE]. Have it write less, make mini_batch_size smaller, or raise the limit
    files over_limit: limits.files allows one call to make 10 files and folders; in run the entry script asked for 11. Have it put more into each, make mini_batch_size smaller, or raise the limit
    folders over_limit: limits.files allows one call to make 1 file or folder; in run the entry script asked for 2. Have it put more into each, make mini_batch_size smaller, or raise the limit
    handles over_limit: limits.handles allows 100 open files and other handles at once; in run the entry script asked for more. Have it close what it does not need, or raise the limit
    transfer over_limit: limits.transfer allows 1 MB in one call between host and entry script; in run the entry script handed over more. Have it hand over less at a time, or raise the limit
    time timeout: run took longer than run_invocation_timeout (1 s); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)
    ");
}

/// The length of a table's row is measured in the output format.
#[test]
fn a_long_row_of_a_table() {
    let job = |limit: &str| {
        let long = "y".repeat(100);
        TestJob::new(&guest("echo_table"))
            .yaml("inputs: { rows: { path: input, format: csv } }\nrun_max_try: 1")
            .yaml(&format!("limits: {{ row: {limit} }}"))
            .file("input/a.csv", format!("id,text\n1,x\n2,{long}\n"))
    };
    job("200").run(&[]).exits_with(0);
    let ran = job("50").run(&[]);
    ran.exits_with(42);
    let reason = ran.stderr.lines().find_map(|line| line.strip_prefix("  first cause   "));
    assert_snapshot!(reason.unwrap_or_default(), @"limits.row allows 50 bytes for one row; row 1 (counted from 0) of what run returned has 103 bytes. Make its rows smaller, or raise the limit");
}

/// The reports show the fuel that was used, so that a user can choose a limit.
#[test]
fn used_fuel_is_reported() {
    let ran = job("moderate", "limits: { fuel: 10000000000 }").run(&[]);
    ran.exits_with(0);
    let table = ran.log("sys/job_report/processed_mini-batches.csv");
    assert!(table.contains("\"\"fuel\"\":"), "{table}");
    assert!(ran.log("sys/events.jsonl").contains("\"init_fuel\":"), "{ran}");
    // Without a limit, fuel is not measured.
    let ran = job("moderate", "").run(&[]);
    let events = ran.log("sys/events.jsonl");
    assert!(!events.contains("\"init_fuel\":") && events.contains("\"fuel\":null"), "{events}");
}

/// The limits begin anew with each call, and operations without effect do not count.
#[test]
fn a_moderate_guest_keeps_the_limits() {
    let limits = "limits: { logs: 700 KB, output: 700 KB, files: 6, handles: 40, stack: 256 KB }";
    let ran = job("moderate", limits)
        .yaml("output_action: append_row")
        .file("input/b.txt", "")
        .file("input/c.txt", "")
        .run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"
    f0 file, f1 file, f2 file, f3 file, f4 file; refused true; no folder true
    f0 file, f1 file, f2 file, f3 file, f4 file; refused true; no folder true
    f0 file, f1 file, f2 file, f3 file, f4 file; refused true; no folder true
    ");
}

#[test]
fn init_has_the_same_limits() {
    let ran =
        job("log", "limits: { logs: 1 MB }").run(&["--set", "arguments=[--do, log, --when, init]"]);
    ran.exits_with(42);
    let line = ran.stderr.lines().find(|line| line.contains("could not start")).unwrap_or_default();
    let (_, message) = line.split_once("could not start: ").unwrap_or_default();
    assert_snapshot!(without_written_size(message), @"limits.logs allows 1 MB for stdout, stderr and the log of one call; in init the entry script wrote [SIZE]. Have it print less, or raise the limit");
}
