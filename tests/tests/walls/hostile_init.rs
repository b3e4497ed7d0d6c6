//! Guests that misbehave in `init` and `shutdown`.

#![cfg(unix)]

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest};

/// A job of three files, one in each mini-batch.
fn job(arguments: &str) -> TestJob {
    TestJob::new(&guest("hostile_init"))
        .watched()
        .yaml(&format!(
            "inputs: {{ texts: input }}\n\
             arguments: [{arguments}]\n\
             mini_batch_size: 1\n\
             process_count_per_node: 1"
        ))
        .file("input/a.txt", "1")
        .file("input/b.txt", "22")
        .file("input/c.txt", "333")
}

const ROWS: [&str; 3] = ["a.txt: 1", "b.txt: 2", "c.txt: 3"];

/// Rule I1 (docs/parallel-run-step.md): the job fails after `init` has failed 3 x `process_count_per_node`
/// times in a row.
#[test]
fn an_init_that_always_fails_ends_the_job() {
    let ran = job("--do, panic").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    [WORKER] could not start: the entry script panicked in init at src/harm.rs:[LINE]: this guest panics, as asked
    [WORKER] could not start: the entry script panicked in init at src/harm.rs:[LINE]: this guest panics, as asked
    [WORKER] could not start: the entry script panicked in init at src/harm.rs:[LINE]: this guest panics, as asked
    Job test failed after [TIME]: init failed 3 times in a row, on every worker that was started: the entry script panicked in init at src/harm.rs:[LINE]: this guest panics, as asked
      first cause   the entry script panicked in init at src/harm.rs:[LINE]: this guest panics, as asked
      where         [WORKER]
      mini-batches  0 of 3
      items         0
      read next     job/logs/user/error/0/[WORKER].txt
      what to do    repair init, or what it reads; then resume: sandmill resume job
      next command  sandmill explain job
    ");
    let mut messages = String::new();
    for (harm, settings) in [
        ("error", ""),
        ("trap", ""),
        ("exit-0", ""),
        ("exit-3", ""),
        ("out-of-bounds", ""),
        ("allocate", "limits: { memory: 16 MB }"),
        ("loop", "limits: { fuel: 100000 }"),
    ] {
        let ran = job(&format!("--do, {harm}")).yaml(settings).run(&[]);
        ran.exits_with(42).left_nothing();
        assert_eq!(ran.output(), "", "{ran}");
        let text = ran.messages();
        let first = text.lines().find_map(|line| line.strip_prefix("  first cause   "));
        messages += &format!("{harm}: {}\n", first.unwrap_or("nothing"));
    }
    assert_snapshot!(messages, @"
    error: this guest fails, as asked
    trap: the entry script trapped in init: wasm `unreachable` instruction executed (it aborted itself)
    exit-0: the entry script ended itself in init, with exit code 0: return an error instead
    exit-3: the entry script ended itself in init, with an exit code other than 0: return an error instead
    out-of-bounds: the entry script trapped in init: out of bounds memory access (an invalid pointer, or too much recursion)
    allocate: the entry script ran out of memory in init: limits.memory allows 16 MB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    loop: the entry script used up its fuel in init: limits.fuel allows 100000 for one call. Raise the limit, or look for a loop that does not end
    ");
}

/// Rule I3, without a fuel limit. This test is slow, because the timeout of `init` is at least 30 seconds.
#[test]
fn an_init_that_never_ends_ends_the_job() {
    let ran = job("--do, loop").yaml("run_invocation_timeout: 0.1").run(&[]);
    ran.exits_with(42).left_nothing();
    assert_eq!(ran.output(), "", "{ran}");
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    Job test failed after [TIME]: no progress: every worker has been inside init for more than [TIME] (3 x run_invocation_timeout + 30 s); see what init waits for, do less in it, or raise run_invocation_timeout
      first cause   init had not ended after [TIME]
      where         [WORKER]
      mini-batches  0 of 3
      items         0
      read next     job/logs/sys/error/0/_main.txt
      what to do    find out what init waits for; if it is only slow, raise run_invocation_timeout
      next command  sandmill explain job
    ");
}

#[test]
fn too_little_memory_to_start() {
    let ran = job("--do, nothing").yaml("limits: { memory: 64 KB }").run(&[]);
    ran.exits_with(42);
    assert_snapshot!(ran.messages(), @"
    job test: 1 worker
    [WORKER] could not start: the entry script ran out of memory while it was started: limits.memory allows 64 KB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    [WORKER] could not start: the entry script ran out of memory while it was started: limits.memory allows 64 KB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    [WORKER] could not start: the entry script ran out of memory while it was started: limits.memory allows 64 KB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
    Job test failed after [TIME]: init failed 3 times in a row, on every worker that was started: the entry script ran out of memory while it was started: limits.memory allows 64 KB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
      first cause   the entry script ran out of memory while it was started: limits.memory allows 64 KB, it held [SIZE] and asked for [SIZE] more. Raise the limit, or hold less at a time
      where         [WORKER]
      mini-batches  0 of 3
      items         0
      read next     job/logs/user/error/0/[WORKER].txt
      what to do    repair init, or what it reads; then resume: sandmill resume job
      next command  sandmill explain job
    ");
}

#[test]
fn one_worker_that_cannot_start_is_replaced() {
    for harm in ["panic", "exit-3", "error"] {
        let ran = job(&format!("--do, {harm}, --on-agent, process000")).run(&[]);
        ran.exits_with(0).says("process000 could not start: ");
        assert_eq!(ran.sorted_output(), ROWS, "{ran}");
        assert!(ran.attempts("process000").is_empty(), "{ran}");
    }
}

/// Rule E3: when `shutdown` is called, all rows are committed. So the job completes, and a note reports the
/// failure.
#[test]
fn a_failed_shutdown_is_reported() {
    let mut messages = String::new();
    for harm in ["panic", "exit-3", "trap", "loop"] {
        let ran =
            job(&format!("--do, {harm}, --in-shutdown")).yaml("run_invocation_timeout: 1").run(&[]);
        ran.exits_with(0).left_nothing();
        assert_eq!(ran.sorted_output(), ROWS, "{ran}");
        let text = ran.messages();
        let note = text.lines().find_map(|line| line.strip_prefix("note: "));
        messages += &format!("{harm}: {}\n", note.unwrap_or("nothing"));
    }
    assert_snapshot!(messages, @"
    panic: [WORKER]: shutdown failed: the entry script panicked in shutdown at src/harm.rs:[LINE]: this guest panics, as asked
    exit-3: [WORKER]: shutdown failed: the entry script ended itself in shutdown, with an exit code other than 0: return an error instead
    trap: [WORKER]: shutdown failed: the entry script trapped in shutdown: wasm `unreachable` instruction executed (it aborted itself)
    loop: [WORKER]: shutdown took longer than run_invocation_timeout (1 s); the worker was killed
    ");
}
