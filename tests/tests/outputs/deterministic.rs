//! With `deterministic: true`, the same mini-batch gives the same bytes.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest};

/// Runs twelve mini-batches of a guest that returns all facts that could differ between runs.
fn repeats(deterministic: bool, arguments: &[&str]) -> Ran {
    let mut job = TestJob::new(&guest("repeats")).yaml(&format!(
        "inputs: {{texts: in}}\nside_inputs: {{many: many}}\nmini_batch_size: 1\n\
         run_max_try: 3\ndeterministic: {deterministic}\noutput_files: overwrite"
    ));
    for name in "abcdefghijkl".chars() {
        job = job.file(&format!("in/{name}"), "");
        // Twelve files, which the file system almost certainly does not list in the order of their names.
        job = job.file(&format!("many/{name}{name}"), "");
    }
    let ran = job.run(arguments);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 12, "{ran}");
    ran
}

#[test]
fn the_same_mini_batch_gives_the_same_bytes() {
    let first = repeats(true, &["--set", "process_count_per_node=1"]).sorted_output();
    for arguments in [
        &["process_count_per_node=1"][..],
        &["process_count_per_node=3"],
        &["process_count_per_node=1", "arguments=[--fail-first]"],
        &["process_count_per_node=3", "arguments=[--fail-first]", "limits.fuel=10000000000"],
    ] {
        let options: Vec<&str> = arguments.iter().flat_map(|set| ["--set", *set]).collect();
        assert_eq!(repeats(true, &options).sorted_output(), first, "{arguments:?}");
    }
    // Different mini-batches get different random numbers.
    let numbers = |row: &String| row.split('|').nth(2).map(str::to_owned);
    let distinct: std::collections::HashSet<_> = first.iter().map(numbers).collect();
    assert_eq!(distinct.len(), 12);
}

/// Checks the facts that do not depend on random numbers: clocks, files and others.
#[test]
fn clocks_and_files_are_the_same_everywhere() {
    let ran = repeats(true, &["--set", "process_count_per_node=1"]);
    let rows = ran.sorted_output();
    let facts = |row: &str| {
        let names = ["calls=", "date=", "slept=", "nan=", "times=", "listed="];
        let found = row.split('|').filter(|fact| names.iter().any(|name| fact.starts_with(name)));
        found.map(|fact| format!("{fact}\n")).collect::<String>()
    };
    assert_snapshot!(facts(&rows[0]), @r#"
    calls=1
    date=1577840400
    slept=3600
    nan=7ff8000000000000
    times=[1577836800, 1577836800, 1577836800]
    listed=["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj", "kk", "ll"]
    "#);
    assert_eq!(facts(&rows[0]), facts(&rows[11]));
    // With `deterministic`, each mini-batch has its own instance, which is shut down. Only the instance that
    // was initialized before the first mini-batch is not shut down.
    let stdout = ran.log("user/stdout/0/process000.stdout.txt");
    assert_eq!(stdout, "shutdown after 1 calls\n".repeat(12));
}

/// Shows that the tests above can fail.
#[test]
fn without_deterministic_the_bytes_differ() {
    let run = || repeats(false, &["--set", "arguments=[--awake]"]).sorted_output();
    let first = run();
    let second = run();
    let facts = |row: &String| row.split('|').map(str::to_owned).collect::<Vec<_>>();
    for (first, second) in first.iter().map(facts).zip(second.iter().map(facts)) {
        for index in [2, 3, 4, 6] {
            assert_ne!(first[index], second[index]);
        }
    }
}

/// If `init` fails in a later instance, the attempt fails with the message of `init`.
#[test]
fn an_init_that_fails_later_fails_its_attempt() {
    let ran = TestJob::new(&guest("repeats"))
        .yaml("arguments: [--fail-later]\ninputs: {texts: in}\ndeterministic: true")
        .yaml("run_max_try: 2\nprocess_count_per_node: 1")
        .file("in/a", "")
        .run(&[]);
    let message = "mini-batch 0, attempt 2 (process000): there was an instance before";
    ran.exits_with(42).says(message);
}
