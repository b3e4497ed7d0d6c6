//! Guests that misbehave in `run`. Each makes only its own mini-batch fail, and the message says what the
//! guest did.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, redact};
use std::fs;

/// The rows of the mini-batches that no act harmed.
const GOOD: [&str; 4] = ["f0.txt: 0", "f1.txt: 1", "f4.txt: 4", "f5.txt: 5"];

/// A job of three mini-batches of two files each. The guest commits `harm` in the second mini-batch.
fn job(harm: &str) -> TestJob {
    let mut job = TestJob::new(&guest("hostile_files")).watched().yaml(&format!(
        "inputs: {{ texts: input }}\n\
         arguments: [--do, {harm}, --on-batch, '1']\n\
         mini_batch_size: 2\n\
         process_count_per_node: 2\n\
         run_max_try: 2"
    ));
    for size in 0..6 {
        job = job.file(&format!("input/f{size}.txt"), "x".repeat(size));
    }
    job
}

/// Runs the job with more settings, and tolerates all failures. Checks that each report has the message of
/// the failure, and that the output has all rows of the other mini-batches. Returns the message.
fn fails_only_its_mini_batch(harm: &str, settings: &str) -> String {
    let ran = job(harm).yaml("error_threshold: -1").yaml(settings).run(&[]);
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.sorted_output(), GOOD, "{ran}");
    assert_eq!(ran.attempts("RUN_EXCEPTION"), ["1, 1", "1, 2"], "{ran}");
    assert_eq!(ran.attempts("RUN_DONE"), ["0, 1", "2, 1"], "{ran}");
    let second = ran.stderr.lines().find_map(|line| line.strip_prefix("mini-batch 1, attempt 2 ("));
    let Some((_, message)) = second.and_then(|line| line.split_once("): ")) else {
        panic!("no message\n{ran}");
    };
    let start: String = message.chars().take(60).collect();
    let failed = ran.failed_items();
    assert_eq!(failed.lines().count(), 3, "{failed}");
    for file in ["/inputs/texts/f2.txt", "/inputs/texts/f3.txt"] {
        assert!(failed.contains(&format!("1,{file},{file},,,2,")), "{failed}");
    }
    for file in ["failed_items.csv", "user/error.txt", "sys/job_report/processed_mini-batches.csv"]
    {
        assert!(ran.log(file).contains(&start), "{file} does not say: {start}\n{ran}");
    }
    assert!(errors(&ran).contains(&start), "{ran}");
    redact(message, ran.dir())
}

/// The joined texts of the files with the failures of each worker.
fn errors(ran: &Ran) -> String {
    let folder = ran.dir().join("job/logs/user/error/0");
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Runs a job for each kind of harm with its settings. Returns a line for each: the harm and the message.
fn messages(cases: &[(&str, &str)]) -> String {
    let line = |(harm, settings): &(&str, &str)| {
        let message = fails_only_its_mini_batch(harm, settings);
        format!("{harm}: {message}\n")
    };
    cases.iter().map(line).collect()
}

/// Rule W2 in docs/parallel-run-step.md.
#[test]
fn guests_that_panic_trap_or_exit() {
    let harms = ["panic", "error", "trap", "abort", "exit-0", "exit-3", "out-of-bounds", "recurse"];
    let lines = messages(&harms.map(|harm| (harm, "")));
    assert_snapshot!(lines, @"
    panic: the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked
    error: this guest fails, as asked
    trap: the entry script trapped in run: wasm `unreachable` instruction executed (it aborted itself)
    abort: the entry script trapped in run: wasm `unreachable` instruction executed (it aborted itself)
    exit-0: the entry script ended itself in run, with exit code 0: return an error instead
    exit-3: the entry script ended itself in run, with an exit code other than 0: return an error instead
    out-of-bounds: the entry script trapped in run: out of bounds memory access (an invalid pointer, or too much recursion)
    recurse: the entry script trapped in run: out of bounds memory access (an invalid pointer, or too much recursion)
    ");
}

/// Rules E7, W2.
#[test]
fn guests_with_invalid_results() {
    let harms = ["outcomes-too-few", "outcomes-too-many", "rows-with-line-ends"];
    let lines = messages(&harms.map(|harm| (harm, "")));
    assert_snapshot!(lines, @"
    outcomes-too-few: run returned 1 outcome for 2 items: return one outcome for each item, in the order of the mini-batch
    outcomes-too-many: run returned 7 outcomes for 2 items: return one outcome for each item, in the order of the mini-batch
    rows-with-line-ends: row 0 (counted from 0) of the results holds a line break, but a row is one line of the output: replace the line break, or return a table, whose fields may hold one
    ");
}

/// Rule T4.
#[test]
fn guests_that_use_too_much() {
    let lines = messages(&[
        ("huge-rows", "limits: { results: 1 MB }"),
        ("many-rows", "limits: { memory: 16 MB }"),
        ("allocate", "limits: { memory: 16 MB }"),
        ("loop", "limits: { fuel: 1000000 }"),
    ]);
    assert_snapshot!(lines, @"
    huge-rows: run returned rows of 128.0 MB, and limits.results allows 1 MB. Raise the limit, or make mini_batch_size smaller
    many-rows: the entry script ran out of memory in run: limits.memory allows 16 MB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    allocate: the entry script ran out of memory in run: limits.memory allows 16 MB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    loop: the entry script used up its fuel in run: limits.fuel allows 1000000 for one call. Raise the limit, or look for a loop that does not end
    ");
}

#[test]
fn a_huge_error_is_cut() {
    let message = fails_only_its_mini_batch("huge-error", "");
    assert!(message.starts_with("eeee") && message.ends_with(" ..."), "{message}");
    assert!(message.len() < 400, "{} bytes at the terminal", message.len());
    let ran = job("huge-error").run(&[]);
    ran.exits_with(42);
    let size = |path: &str| fs::metadata(ran.dir().join(path)).unwrap().len();
    assert!(errors(&ran).len() < 100_000, "{ran}");
    assert!(size("job/logs/sys/events.jsonl") < 200_000, "{ran}");
}

/// Rules E8, E9: an attempt does not fail because its number of rows differs from its number of items.
#[test]
fn fewer_or_more_rows_than_items() {
    let ran = job("return-nothing").yaml("error_threshold: 2").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), GOOD);
    assert_snapshot!(ran.messages(), @"
    job test: 2 workers
    Job test completed in [TIME].
      mini-batches  3, of which 1 has fewer rows than items
      items         6, of which 2 failed (see job/logs/failed_items.csv)
      rows          4
      output        job/output/parallel_run_step.txt
    ");
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    1,/inputs/texts/f2.txt and 1 more,/inputs/texts/f2.txt,,,1,[WORKER],"run returned fewer rows than items, so that 2 items of this mini-batch failed; it is not known which"
    "#);

    let ran = job("return-too-few").yaml("error_threshold: 1").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 5);
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    1,/inputs/texts/f2.txt and 1 more,/inputs/texts/f2.txt,,,1,[WORKER],"run returned fewer rows than items, so that 1 item of this mini-batch failed; it is not known which"
    "#);

    let ran = job("return-too-many").run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output().len(), 4 + 7);
    assert_snapshot!(ran.messages(), @"
    job test: 2 workers
    note: mini-batch 1 returned 5 more rows than it has items; the rows are kept, and items are never counted above their number (reported once per job)
    Job test completed in [TIME].
      mini-batches  3
      items         6
      rows          11
      output        job/output/parallel_run_step.txt
    ");
}

#[test]
fn no_failure_is_ignored_by_default() {
    // The guest misbehaves in the last mini-batch, and there is one worker, so that the other mini-batches
    // are done before the job ends.
    let run_with_last = |harm| {
        let arguments = format!("arguments=[--do, {harm}, --on-batch, '2']");
        job(harm).run(&["--process-count", "1", "--set", &arguments])
    };
    let ran = run_with_last("panic");
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    mini-batch 2, attempt 1 ([WORKER]), will be tried again: the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked
    mini-batch 2, attempt 2 ([WORKER]): the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked
    Job test failed after [TIME]: 2 items failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   the entry script panicked in run at src/harm.rs:[LINE]: this guest panics, as asked
      where         mini-batch 2, [WORKER]
      mini-batches  3, of which 1 failed
      items         6, of which 2 failed (see job/logs/failed_items.csv)
      kept          4 rows, in job/output/parallel_run_step.txt
      read next     job/logs/user/error/0/[WORKER].txt
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
    // The same text is in a file, for users without a terminal.
    let result = ran.log("job_result.txt");
    let summary = ran.stderr.find("Job test failed").map_or("", |at| &ran.stderr[at..]);
    let more = result.strip_prefix(summary).and_then(|more| more.split_once("  os_sandbox    "));
    // Cut off the text after the causes, because it lists the layers of this machine's process wall.
    let causes = more.map(|(causes, _)| causes);
    assert_eq!(
        causes,
        Some("  ended by      error_threshold\n  kind          trap, RUN_EXCEPTION\n"),
        "{ran}"
    );
    let errors = errors(&ran);
    for words in ["stack of the entry script", "test_guests::harm::harm\n", "stderr of the entry"] {
        assert!(errors.contains(words), "{words}\n{errors}");
    }

    let ran = run_with_last("return-nothing");
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    Job test failed after [TIME]: 2 items failed, more than error_threshold allows (0); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   run returned no row for 2 items: an item without a row counts as failed
      where         mini-batch 2, [WORKER]
      mini-batches  3, of which 1 has fewer rows than items
      items         6, of which 2 failed (see job/logs/failed_items.csv)
      kept          4 rows, in job/output/parallel_run_step.txt
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
}

/// Rule W3.
#[test]
fn a_second_attempt_may_succeed() {
    for harm in ["panic", "exit-3", "error", "outcomes-too-few"] {
        let ran = job(harm).yaml("limits: {}").run(&[
            "--set",
            &format!("arguments=[--do, {harm}, --on-batch, '1', --on-attempt, '1']"),
        ]);
        ran.exits_with(0).says("will be tried again");
        assert_eq!(ran.sorted_output().len(), 6, "{ran}");
        assert_eq!(ran.attempts("RUN_EXCEPTION"), ["1, 1"], "{ran}");
        assert_eq!(ran.attempts("RUN_DONE"), ["0, 1", "1, 2", "2, 1"], "{ran}");
    }
}

/// Rules W2, C16, T6, K1. There is one worker at a time, so killed workers must be replaced before the other
/// mini-batches can run.
#[test]
fn an_endless_call_ends_its_worker() {
    const ELAPSED_SECONDS: usize = 8;
    const PROCESS_SECONDS: usize = 9;
    for harm in ["loop", "sleep"] {
        let ran = job(harm)
            .yaml("run_invocation_timeout: 1\nerror_threshold: 2")
            .run(&["--process-count", "1"]);
        ran.exits_with(0).left_nothing();
        assert_eq!(ran.sorted_output(), GOOD, "{ran}");
        assert_eq!(ran.attempts("RUN_TIMEOUT"), ["1, 1", "1, 2"], "{ran}");
        assert_eq!(ran.attempts("RUN_DONE"), ["0, 1", "2, 1"], "{ran}");
        assert_eq!(ran.attempts("process000"), ["0, 1", "1, 1"], "{ran}");
        // Rule W3: the second attempt comes before the third mini-batch.
        assert_eq!(ran.attempts("process001"), ["1, 2"], "{ran}");
        assert_eq!(ran.attempts("process002"), ["2, 1"], "{ran}");
        // Sections 1.10 and 1.11 of docs/parallel-run-step.md: the processor time of a killed worker shows
        // whether it computed or waited.
        for row in ran.log("sys/job_report/processed_mini-batches.csv").lines() {
            let fields: Vec<&str> = row.split(',').collect();
            let seconds = |column: usize| fields[column].parse::<f64>().unwrap();
            match harm {
                _ if !fields.contains(&"RUN_TIMEOUT") => {}
                "loop" => assert!(seconds(PROCESS_SECONDS) >= 0.05, "{row}"),
                _ => assert!(seconds(PROCESS_SECONDS) < seconds(ELAPSED_SECONDS) / 2.0, "{row}"),
            }
        }
        if harm == "loop" {
            assert_snapshot!(ran.messages(), @"
            job test: 1 worker
            mini-batch 1, attempt 1 ([WORKER]), will be tried again: run took longer than run_invocation_timeout (1 s); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)
            mini-batch 1, attempt 2 ([WORKER]): run took longer than run_invocation_timeout (1 s); the worker was killed. Raise the time-out, or make mini-batches smaller (mini_batch_size)
            Job test completed in [TIME].
              mini-batches  3, of which 1 failed
              items         6, of which 2 failed (see job/logs/failed_items.csv)
              rows          4
              output        job/output/parallel_run_step.txt
            ");
        }
    }
}
