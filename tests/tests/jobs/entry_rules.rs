//! How often each worker calls an entry script's functions, and what happens if the numbers of rows and items
//! differ.

#![expect(clippy::unwrap_used, reason = "a test that cannot look at its results fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};
use std::collections::BTreeSet;
use std::fs;

/// A job over `count` files, with two files in each mini-batch.
fn over_files(entry_script: &str, count: usize) -> TestJob {
    let mut job =
        TestJob::new(&guest(entry_script)).yaml("inputs: {texts: in}\nmini_batch_size: 2");
    for number in 0..count {
        job = job.file(&format!("in/{number:02}.txt"), "x".repeat(number));
    }
    job
}

/// The text that each worker's entry script printed.
fn printed(ran: &Ran) -> Vec<String> {
    let files = fs::read_dir(ran.dir().join("job/logs/user/stdout/0")).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Rules E1, E2, E3, W1 (docs/parallel-run-step.md): each worker calls `init` once before its first `run`,
/// `run` once for each mini-batch, and `shutdown` once after the last.
#[test]
fn functions_are_called_the_right_number_of_times() {
    let ran = over_files("surroundings", 24).yaml("process_count_per_node: 3").run(&[]);
    ran.exits_with(0);
    let mut runs = Vec::new();
    for text in printed(&ran) {
        let calls: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("run ") || line.ends_with(" to stdout"))
            .collect();
        // A worker may have no calls: if all mini-batches are done while a worker starts, the worker is
        // stopped.
        let Some((first, rest)) = calls.split_first() else { continue };
        assert_eq!(*first, "init to stdout", "{text}");
        if rest.is_empty() {
            continue;
        }
        let (last, between) = rest.split_last().unwrap();
        assert_eq!(*last, "shutdown to stdout", "{text}");
        runs.extend(between.iter().map(|run| run.to_string()));
    }
    let mut expected: Vec<String> = (0..12).map(|id| format!("run {id} attempt 1")).collect();
    runs.sort();
    expected.sort();
    assert_eq!(runs, expected);
}

/// Rule E18: if each worker puts its name into the names of its log files, the files do not collide. Each worker
/// that returned rows has its own file, and each file has the lines of only one worker.
#[test]
fn workers_share_a_log_folder() {
    let ran = over_files("surroundings", 24).yaml("process_count_per_node: 2").run(&[]);
    ran.exits_with(0);
    let agents: BTreeSet<String> = ran
        .sorted_output()
        .iter()
        .flat_map(|row| row.split('|'))
        .filter_map(|fact| fact.strip_prefix("agent_name="))
        .map(String::from)
        .collect();
    assert!(!agents.is_empty(), "{ran}");
    for agent in agents {
        let facts = ran.log(&format!("user/entry_script_log/0/files/{agent}.txt"));
        assert!(facts.contains(&format!("agent_name={agent}\n")), "{agent}: {facts}");
    }
    let files = fs::read_dir(ran.dir().join("job/logs/user/entry_script_log/0/files")).unwrap();
    for file in files {
        let name = file.unwrap().file_name().into_string().unwrap();
        let agent = name.strip_suffix(".txt").unwrap();
        let facts = ran.log(&format!("user/entry_script_log/0/files/{name}"));
        // A file may be empty: if all mini-batches are done while a worker starts, the worker is stopped.
        let is_its_own = facts.contains(&format!("agent_name={agent}\n"));
        assert!(is_its_own || facts.is_empty(), "{name}: {facts}");
    }
}

/// Rules E10, O4: the order is not guaranteed, but every row is in the output file once, with its key.
#[test]
fn the_output_has_the_rows_of_all_workers() {
    let ran = over_files("echo_files", 40).yaml("process_count_per_node: 4").run(&[]);
    ran.exits_with(0);
    let expected: Vec<String> =
        (0..40).map(|number| format!("{number:02}.txt: {number}")).collect();
    assert_eq!(ran.sorted_output(), expected);
    assert_eq!(fs::read_dir(ran.dir().join("job/output")).unwrap().count(), 1, "{ran}");
}

/// Rules E8, T9: if no file of a mini-batch can be read, each file fails with its own reason, and nothing
/// else fails.
#[test]
fn each_file_that_cannot_be_read_fails_with_its_reason() {
    let ran = over_files("outcomes", 6)
        .yaml("limits: {read: 3}\nerror_threshold: 2\nprocess_count_per_node: 1")
        .run(&[]);
    ran.exits_with(0).says("items         6, of which 2 failed");
    assert_eq!(ran.attempts("RUN_DONE"), ["0, 1", "1, 1", "2, 1"]);
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    2,/inputs/texts/04.txt,/inputs/texts/04.txt,,,1,[WORKER],"/inputs/texts/04.txt: it has 4 bytes, more than limits.read allows (3 bytes)"
    2,/inputs/texts/05.txt,/inputs/texts/05.txt,,,1,[WORKER],"/inputs/texts/05.txt: it has 5 bytes, more than limits.read allows (3 bytes)"
    "#);
    assert_eq!(ran.sorted_output(), ["00.txt: 0", "01.txt: 1", "02.txt: 2", "03.txt: 3"]);
}

/// Rules E8, E9: an empty result fails all items, but not the attempt.
#[test]
fn an_empty_result_fails_all_items_but_no_attempt() {
    let ran = over_files("hostile_files", 6)
        .yaml("arguments: [--do, return-nothing, --on-batch, '1']\nerror_threshold: -1")
        .run(&[]);
    ran.exits_with(0).says("items         6, of which 2 failed");
    assert_eq!(ran.attempts("RUN_DONE"), ["0, 1", "1, 1", "2, 1"]);
    assert_eq!(ran.sorted_output().len(), 4);
}

/// Rule E8: extra rows are kept and reported once. They do not add to the number of items.
#[test]
fn extra_rows_are_kept_and_reported_once() {
    let ran = over_files("hostile_files", 6).yaml("arguments: [--do, return-too-many]").run(&[]);
    ran.exits_with(0).says("more rows than it has items").says("items         6\n");
    assert_eq!(ran.stderr.matches("more rows than it has items").count(), 1, "{ran}");
    assert_eq!(ran.sorted_output().len(), 3 * 7);
}

/// Rules E8, W2, W4: with `strict_cardinality`, a wrong number of rows fails the attempt, which is retried.
/// Outcomes say which items failed, so they do not fail the attempt.
#[test]
fn strict_cardinality_fails_the_attempt() {
    let run_strict = |act: &str| {
        over_files("hostile_files", 6)
            .yaml(&format!("arguments: [--do, {act}, --on-batch, '1']\nerror_threshold: -1"))
            .yaml("strict_cardinality: true\nrun_max_try: 2\nprocess_count_per_node: 1")
            .run(&[])
    };
    let mut messages = String::new();
    for act in ["return-nothing", "return-too-few", "return-too-many"] {
        let ran = run_strict(act);
        ran.exits_with(0);
        assert_eq!(ran.attempts("RUN_EXCEPTION"), ["1, 1", "1, 2"], "{ran}");
        assert_eq!(ran.attempts("short_results"), ["1, 1", "1, 2"], "{ran}");
        assert_eq!(ran.sorted_output().len(), 4, "{ran}");
        let second = ran.stderr.lines().find(|line| line.starts_with("mini-batch 1, attempt 2"));
        messages += &format!("{}\n", second.unwrap_or_default());
    }
    assert_snapshot!(messages, @"
    mini-batch 1, attempt 2 (process000): run returned 0 rows for 2 items, and strict_cardinality asks for one row for each item: return one for each, or set strict_cardinality to false
    mini-batch 1, attempt 2 (process000): run returned 1 row for 2 items, and strict_cardinality asks for one row for each item: return one for each, or set strict_cardinality to false
    mini-batch 1, attempt 2 (process000): run returned 7 rows for 2 items, and strict_cardinality asks for one row for each item: return one for each, or set strict_cardinality to false
    ");
    let ran = over_files("outcomes", 6)
        .file("in/bad.txt", "")
        .yaml("strict_cardinality: true\nerror_threshold: 1")
        .run(&[]);
    ran.exits_with(0).says("items         7, of which 1 failed");
}
