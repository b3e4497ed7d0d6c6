//! Guests that misbehave with tables, mostly by returning invalid Arrow.

#![cfg(unix)]

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest};

/// A job over two CSV files, which make two mini-batches.
fn job(name: &str, arguments: &str) -> TestJob {
    TestJob::new(&guest(name))
        .watched()
        .yaml(&format!(
            "inputs: {{ rows: {{ path: input, format: csv }} }}\n\
             arguments: [{arguments}]\n\
             process_count_per_node: 2\n\
             run_max_try: 1"
        ))
        .file("input/a.csv", "id,x\n1,0.5\n2,1.5\n3,2.5\n")
        .file("input/b.csv", "id,x\n4,3.5\n5,4.5\n")
}

/// Rule E7 in docs/parallel-run-step.md.
#[test]
fn invalid_arrow_streams_are_refused() {
    let mut messages = String::new();
    for harm in ["nothing", "garbage", "cut", "flipped", "huge-length"] {
        let ran = job("bad_arrow", &format!("--do, {harm}")).run(&[]);
        ran.exits_with(42);
        assert_eq!(ran.output(), "", "{ran}");
        let text = ran.messages();
        let first = text.lines().find_map(|line| line.strip_prefix("  first cause   "));
        messages += &format!("{harm}: {}\n", first.unwrap_or("nothing"));
    }
    assert_snapshot!(messages, @"
    nothing: run returned a table that is not a valid Arrow IPC stream: it holds no schema (it has 0 bytes)
    garbage: run returned a table that is not a valid Arrow IPC stream: it ends without an end-of-stream mark (it has 52 bytes)
    cut: run returned a table that is not a valid Arrow IPC stream: it ends without an end-of-stream mark (it has 292 bytes)
    flipped: run returned a table that is not a valid Arrow IPC stream: Unable to get root as message: Unaligned
    huge-length: run returned a table that is not a valid Arrow IPC stream: it ends without an end-of-stream mark (it has 8 bytes)
    ");
}

#[test]
fn the_other_tables_are_kept() {
    let mut messages = String::new();
    for harm in ["panic", "exit-3", "return-nothing", "outcomes-too-few"] {
        let ran = job("hostile_table", &format!("--do, {harm}, --on-batch, '1'"))
            .yaml("error_threshold: -1")
            .run(&[]);
        ran.exits_with(0).left_nothing();
        assert_eq!(ran.sorted_output(), ["1 0.5", "2 1.5", "3 2.5"], "{ran}");
        let failed = ran.failed_items();
        messages += &format!("{harm}: {}\n", failed.lines().nth(1).unwrap_or_default());
    }
    let messages = sandmill_tests::redact(&messages, sandmill_tests::root());
    assert_snapshot!(messages, @r#"
    panic: 1,"/inputs/rows/b.csv, 2 records from line 2",/inputs/rows/b.csv,2,,1,[WORKER],"the whole mini-batch (2 items): the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked"
    exit-3: 1,"/inputs/rows/b.csv, 2 records from line 2",/inputs/rows/b.csv,2,,1,[WORKER],"the whole mini-batch (2 items): the entry script ended itself in run, with an exit code other than 0: return an error instead"
    return-nothing: 1,"/inputs/rows/b.csv, 2 records from line 2",/inputs/rows/b.csv,,,1,[WORKER],"run returned fewer rows than items, so that 2 items of this mini-batch failed; it is not known which"
    outcomes-too-few: 1,"/inputs/rows/b.csv, 2 records from line 2",/inputs/rows/b.csv,2,,1,[WORKER],"the whole mini-batch (2 items): run returned 1 outcome for 2 items: return one outcome for each item, in the order of the mini-batch"
    "#);
}

#[test]
fn a_guest_for_another_kind_of_input_is_refused() {
    let ran = job("echo_files", "").run(&["--set", "inputs.rows.path=input/a.csv"]);
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @"error: the entry script [REPO]/target/guests/wasm32-wasip2/release/examples/echo_files.wasm takes files (`type Input = Files`), but the job hands over tables: remove `format` from the job's inputs, or set `type Input = Table` in the entry script");
    let ran = TestJob::new(&guest("echo_table"))
        .yaml("inputs: { texts: input }\nrun_max_try: 1\nprocess_count_per_node: 1")
        .file("input/a.txt", "text")
        .run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.messages(), @"error: the entry script [REPO]/target/guests/wasm32-wasip2/release/examples/echo_table.wasm takes tables (`type Input = Table`), but the job hands over files: give the job's inputs a `format` (e.g. `format: csv`), or set `type Input = Files` in the entry script");
}
