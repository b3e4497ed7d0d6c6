//! Guests that pass the host addresses, texts and results that no binding generator would produce.
//! Also guests with a hostile allocator or start function.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Fate, Ran, TestJob, good_row, play, wat_guest, wat_module};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Writes a compiled guest to a file. Returns its temporary folder, and its path.
fn write_guest(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.wasm");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn values_that_no_toolchain_would_pass() {
    let fails = Fate::Fails;
    let outside = || Fate::Fails("is outside of the guest's memory");
    // The WebAssembly engine has its own messages for these acts.
    let refused = || Fate::Fails("the entry script failed in run: ");
    let memory = || Fate::Fails("ran out of memory in run: limits.memory allows 1100 MB");
    let acts = [
        ("trap", fails("trapped in run")),
        ("rows-outside", outside()),
        ("rows-4-billion", outside()),
        ("rows-unaligned", refused()),
        ("row-4-gb", outside()),
        ("row-no-utf-8", fails("not valid UTF-8 (entry 1 of its results)")),
        ("row-forged-before", fails("not valid UTF-8 (entry 2 of its results)")),
        ("row-with-null", Fate::Gives(vec!["\0nul".to_owned()])),
        ("results-kind-9", refused()),
        ("result-kind-9", refused()),
        ("outcome-kind-9", fails("neither ok nor error, but 9")),
        ("row-1-gb", fails(" allows ")),
        ("rows-10-million", fails("limits.results allows 16 MB")),
        ("rows-all-the-same", fails("limits.results allows 16 MB")),
        ("table-outside", outside()),
        ("error-outside", outside()),
        ("error-1-gb", fails("the whole mini-batch")),
        ("return-outside", refused()),
        ("return-unaligned", refused()),
        ("answer-outside", refused()),
        ("log-outside", refused()),
        ("log-no-utf-8", refused()),
        ("log-level-77", refused()),
        ("read-path-1-gb", fails("the whole mini-batch")),
        ("grow-memory", memory()),
        ("grow-table", memory()),
        ("call-wrong-type", fails("trapped in run: indirect call type mismatch")),
        ("recurse", fails("the entry script's stack overflowed in run")),
    ];
    let (_folder, guest) = write_guest(&wat_guest("abi"));
    let settings = "limits: {memory: 1100 MB, results: 16 MB}\nprocess_count_per_node: 1";
    let ran = play(&guest, settings, &acts, |id, _| good_row(id));
    assert!(!ran.output().contains("forged"), "{ran}");
}

/// The host calls `cabi_realloc` in the middle of its own work.
#[test]
fn a_hostile_allocator() {
    let acts = [
        Fate::Fails("trapped in run"),
        Fate::Fails("the entry script failed in run: "),
        Fate::Fails("in run"),
        Fate::Fails("ran out of memory in run: limits.memory allows 16 MB"),
        Fate::Fails("the entry script's stack overflowed in run"),
        Fate::Fails("run took longer than run_invocation_timeout (1 s)"),
    ];
    // A path of 200 bytes or more chooses the act by its length.
    let name = |index: usize| "x".repeat(200 + index - "/inputs/texts/000-.txt".len());
    let names: Vec<String> = (0..acts.len()).map(name).collect();
    let acts: Vec<(&str, Fate)> = names.iter().map(String::as_str).zip(acts).collect();
    let (_folder, guest) = write_guest(&wat_guest("alloc"));
    let settings = "limits: {memory: 16 MB}\nprocess_count_per_node: 1\nrun_invocation_timeout: 1";
    play(&guest, settings, &acts, |id, _| good_row(id));
}

/// Runs a job with a guest that has these additional definitions.
fn run_with(definitions: &str, settings: &str) -> Ran {
    let text =
        format!("(module COMMON GOOD {definitions} (func RUN (call $good (local.get $id))))");
    let (_folder, guest) = write_guest(&wat_module(&text));
    let ran = TestJob::new(&guest)
        .yaml("inputs: {texts: in}\nprocess_count_per_node: 1")
        .yaml(settings)
        .file("in/a.txt", "")
        .watched()
        .own_cache()
        .run(&[]);
    ran.left_nothing();
    ran
}

/// All memories and tables of an instance share one budget, from the start.
#[test]
fn instances_that_need_too_much_memory_to_start() {
    let memories: String = (0..90).map(|_| "(memory 16)".to_owned()).collect();
    let tables: String = (0..90).map(|_| "(table 100000 funcref)".to_owned()).collect();
    for definitions in [memories.as_str(), &tables, "(memory 65536)", "(table 9000000 funcref)"] {
        let ran = run_with(definitions, "limits: {memory: 16 MB}");
        ran.exits_with(42)
            .says("ran out of memory while it was started: limits.memory allows 16 MB");
        assert_eq!(ran.output(), "", "{ran}");
    }
}

#[test]
fn start_functions_that_never_end() {
    for (body, settings, words) in [
        ("unreachable", "", "trapped"),
        ("(loop $l (br $l))", "limits: {fuel: 1000000}", "used up its fuel"),
        ("(call $start)", "", "stack overflowed"),
        (
            "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
            "limits: {memory: 16 MB}",
            "limits.memory allows 16 MB",
        ),
    ] {
        let ran = run_with(&format!("(func $start {body}) (start $start)"), settings);
        ran.exits_with(42).says(words).says("while it was started");
        assert_eq!(ran.output(), "", "{ran}");
    }
}

/// A start function may take as long as `init`. An interrupted job does not wait for it.
#[test]
fn a_start_function_that_loops_ends_with_its_job() {
    let text = "(module COMMON GOOD (func $start (loop $l (br $l))) (start $start)
        (func RUN (call $good (local.get $id))))";
    let (_folder, guest) = write_guest(&wat_module(text));
    let mut running = TestJob::new(&guest)
        .yaml("inputs: {texts: in}\nprocess_count_per_node: 1")
        .file("in/a.txt", "")
        .watched()
        .start(&[]);
    running.until("the worker has started", |running| {
        running.children().iter().any(|(_, command)| command.ends_with(" worker"))
    });
    running.interrupt();
    running.wait().exits_with(130).left_nothing();
}
