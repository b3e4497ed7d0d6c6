//! Tests of ordinary and hostile guests in the whole sandbox.

mod exceptions;
mod limits;
mod reading;

use super::*;
use crate::compile::testing::component;
use crate::compile::{Instrumentation, compile_here};
use crate::model::{ByteSize, CallStats, Failure, FailureKind, Limits, LoggingLevel, Mount};
use arrow::buffer::Buffer;
use std::path::PathBuf;
use std::time::Instant as Time;

/// What a guest returned.
#[derive(Debug, Default, PartialEq)]
struct Collected {
    rows: Vec<String>,
    failed: Vec<(usize, String)>,
    table: Option<Vec<u8>>,
}

impl ResultSink for Collected {
    fn row(&mut self, row: &str) {
        self.rows.push(row.to_owned());
    }
    fn failed(&mut self, index: usize, reason: &str) {
        self.failed.push((index, reason.to_owned()));
    }
    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.table = Some(ipc.to_vec());
        Ok(())
    }
}

/// A guest with its program and grants.
struct GuestFixture {
    folder: tempfile::TempDir,
    program: GuestProgram,
    grants: Grants,
}

impl GuestFixture {
    fn new(world: &str, body: &str) -> Self {
        Self::with_limits(world, body, Limits::default())
    }

    fn with_limits(world: &str, body: &str, limits: Limits) -> Self {
        let fuel = limits.fuel.is_some();
        Self::compiled(world, body, limits, Instrumentation { fuel, ..Instrumentation::default() })
    }

    fn compiled(world: &str, body: &str, limits: Limits, with: Instrumentation) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inputs")).expect("creates");
        std::fs::write(at("inputs/a.txt"), "alpha").expect("writes");
        let code = compile_here(&component(world, body), with).expect("compiles");
        let grants = Grants {
            mounts: vec![Mount { host: at("inputs"), guest: "/inputs".into(), writable: false }],
            arguments: vec!["entry-script".into(), "--verbose".into()],
            environment: vec![("KEY".into(), "value".into())],
            agent_name: "process007".into(),
            node_id: "0".into(),
            logging_level: LoggingLevel::Info,
            limits,
            ..Grants::sample(folder.path())
        };
        let program = GuestProgram::load(&code, with, grants.limits.stack).expect("loads");
        Self { folder, program, grants }
    }

    fn instance(&self) -> Instance {
        self.program.instantiate(&self.grants).expect("starts")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn run(
    instance: &mut Instance,
    data: MiniBatchData<'_>,
) -> (CallStats, Result<Collected, Failure>) {
    let mut sink = Collected::default();
    let keys = [("user".to_owned(), "ann".to_owned())];
    let context = RunContext { id: 5, dataset: "images", attempt: 2, partition_key_value: &keys };
    let (stats, result) = instance.run(data, &context, &mut sink);
    (stats, result.map(|()| sink))
}

/// Runs a guest whose function `run` has this body, without data.
fn run_body(body: &str, limits: Limits) -> Result<Collected, Failure> {
    let fixture = GuestFixture::with_limits("run-only", &format!("RUN {body})"), limits);
    run(&mut fixture.instance(), MiniBatchData::Void).1
}

fn failure(body: &str, limits: Limits) -> Failure {
    run_body(body, limits).expect_err("the guest is bad")
}

/// A function for `run` that returns a list at `$at` with `$count` elements as the case `$case` of `results`:
/// 0 is rows, 1 is outcomes, 2 is a table. The result is at address 16.
const RETURN: &str = r#"
    (func $return (param $case i32) (param $at i32) (param $count i32) (result i32)
      (i32.store8 (i32.const 16) (i32.const 0))
      (i32.store8 (i32.const 20) (local.get $case))
      (i32.store (i32.const 24) (local.get $at))
      (i32.store (i32.const 28) (local.get $count))
      (i32.const 16))"#;

/// Rule E14 in docs/parallel-run-step.md: a call returns all of its results.
#[test]
fn rows_outcomes_and_tables_are_returned() {
    // The list of paths that `run` gets is also a valid list of rows.
    let echo =
        format!("{RETURN} RUN (call $return (i32.const 0) (local.get $ptr) (local.get $len)))");
    let fixture = GuestFixture::new("run-only", &echo);
    let mut instance = fixture.instance();
    let paths = ["/inputs/a".to_owned(), String::new(), "/inputs/\u{fc}".to_owned()];
    for _ in 0..3 {
        let (stats, result) = run(&mut instance, MiniBatchData::Files(&paths));
        assert_eq!(result.expect("succeeds").rows, paths);
        assert!(stats.seconds > 0.0 && stats.fuel.is_none());
    }
    let echo =
        format!("{RETURN} RUN (call $return (i32.const 2) (local.get $ptr) (local.get $len)))");
    let pieces = [b"ARR".as_slice(), b"OW"].map(Buffer::from);
    let (_, result) =
        run(&mut GuestFixture::new("run-only", &echo).instance(), MiniBatchData::Table(&pieces));
    assert_eq!(result.expect("succeeds").table.as_deref(), Some(&b"ARROW"[..]));
    let outcomes = format!(
        r#"(data (i32.const 64) "\00\00\00\00\80\00\00\00\02\00\00\00\01\00\00\00\82\00\00\00\03\00\00\00")
        (data (i32.const 128) "okbad") {RETURN}
        RUN (call $return (i32.const 1) (i32.const 64) (i32.const 2)))"#
    );
    let (_, result) =
        run(&mut GuestFixture::new("run-only", &outcomes).instance(), MiniBatchData::Void);
    let result = result.expect("succeeds");
    assert_eq!((result.rows, result.failed), (vec!["ok".into()], vec![(1, "bad".into())]));
}

#[test]
fn init_and_shutdown_are_called_if_they_exist() {
    let full = r#"
        (global $calls (mut i32) (i32.const 0))
        (data (i32.const 64) "no model\nlooked in /side_inputs")
        RUN (i32.const 0))
        (func (export "NAME#init") (result i32)
          (i32.store8 (i32.const 16) (global.get $calls))
          (i32.store (i32.const 20) (i32.const 64))
          (i32.store (i32.const 24) (i32.const 31))
          (global.set $calls (i32.const 1))
          (i32.const 16))
        (func (export "NAME#shutdown")
          (if (i32.eqz (global.get $calls)) (then unreachable)))"#;
    let fixture = GuestFixture::new("entry-script", full);
    let mut instance = fixture.instance();
    assert_eq!(instance.init().1, Ok(()));
    assert_eq!(instance.shutdown().1, Ok(()));
    let failure = instance.init().1.expect_err("the second time it returns an error");
    assert_eq!(failure.kind, FailureKind::ScriptError);
    assert_eq!(
        (failure.message.as_str(), failure.detail.as_str()),
        ("no model", "looked in /side_inputs")
    );
    assert_eq!(fixture.instance().shutdown().1.expect_err("traps").kind, FailureKind::Trap);
    let mut run_only = GuestFixture::new("run-only", "RUN (i32.const 0))").instance();
    assert_eq!(run_only.init().1, Ok(()));
    assert_eq!(run_only.shutdown().1, Ok(()));
}

#[test]
fn traps_are_explained_and_another_instance_still_works() {
    let fixture = GuestFixture::new(
        "run-only",
        "(func $inner (param i32) (if (i32.eqz (local.get 0)) (then unreachable)))
        RUN (call $inner (local.get $kind)) (i32.const 0))",
    );
    let failure =
        run(&mut fixture.instance(), MiniBatchData::Files(&["x".into()])).1.expect_err("traps");
    assert_eq!(failure.kind, FailureKind::Trap);
    insta::assert_snapshot!(failure.message, @"the entry script trapped in run: wasm `unreachable` instruction executed (it aborted itself)");
    assert!(failure.detail.contains("0: inner\n"), "{}", failure.detail);
    run(&mut fixture.instance(), MiniBatchData::Void).1.expect("a new instance works");
}

#[test]
fn an_endless_loop_is_ended_by_fuel() {
    let limits = Limits { fuel: Some(100_000), ..Limits::default() };
    let failure = failure("(loop $l (br $l)) (i32.const 0)", limits.clone());
    assert_eq!(failure.kind, FailureKind::OutOfFuel);
    insta::assert_snapshot!(failure.message, @"the entry script used up its fuel in run: limits.fuel allows 100000 for one call. Raise the limit, or look for a loop that does not end");
    let fixture = GuestFixture::with_limits("run-only", "RUN (i32.const 0))", limits);
    let mut instance = fixture.instance();
    let used: Vec<_> = (0..2).map(|_| run(&mut instance, MiniBatchData::Void).0.fuel).collect();
    assert!(used[0].is_some_and(|fuel| fuel > 0 && fuel < 100), "{used:?}");
    assert_eq!(used[0], used[1], "each call gets its own");
}

#[test]
fn deep_recursion_is_a_trap() {
    let body = "(func $f (param i32) (result i32) (i32.add (call $f (local.get 0)) (i32.const 1)))
        RUN (call $f (i32.const 1)))";
    let fixture = GuestFixture::new("run-only", body);
    let thread =
        std::thread::Builder::new().stack_size(guest_thread_stack(&Limits::default(), false));
    let failure = thread
        .spawn(move || run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("overflows"))
        .expect("starts")
        .join()
        .expect("does not abort");
    insta::assert_snapshot!(failure.message, @"the entry script's stack overflowed in run: limits.stack allows 1 MB. Use less recursion, or raise the limit");
    assert_eq!(failure.detail.lines().count(), 41, "{}", failure.detail);
}

#[test]
fn unlimited_growth_is_out_of_memory() {
    let limits = Limits { memory: ByteSize(8 << 20), ..Limits::default() };
    let body =
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";
    let failure = failure(body, limits.clone());
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    insta::assert_snapshot!(failure.message, @"the entry script ran out of memory in run: limits.memory allows 8 MB, it held 7.1 MB and asked for 1 MB more. Raise the limit, or hold less at a time");
    // The end of the 32-bit address space, which no limit can raise.
    let most = Limits { memory: ByteSize(64 << 30), ..Limits::default() };
    let beyond = "(drop (memory.grow (i32.const 65536))) unreachable";
    let failure = self::failure(beyond, most);
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    insta::assert_snapshot!(failure.message, @"the entry script ran out of memory in run: its memory cannot grow beyond 4 GB, although limits.memory allows 64 GB; it held 128 KB and asked for 4 GB more. Hold less at a time: make mini_batch_size smaller");
    // A guest that can handle the refusal succeeds.
    let body =
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (i32.const 0)";
    run_body(body, limits).expect("it handles the refusal");
    let small = Limits { memory: ByteSize(64 << 10), ..Limits::default() };
    let fixture = GuestFixture::with_limits("run-only", "RUN (i32.const 0))", small);
    let failure =
        fixture.program.instantiate(&fixture.grants).err().expect("needs 2 pages to start");
    insta::assert_snapshot!(failure.message, @"the entry script ran out of memory while it was started: limits.memory allows 64 KB, it held 0 bytes and asked for 128 KB more. Raise the limit, or hold less at a time");
}

#[test]
fn tables_count_as_memory() {
    let limits = Limits { memory: ByteSize(1 << 20), ..Limits::default() };
    let fixture = GuestFixture::with_limits(
        "run-only",
        "(table $t 1 funcref)
        RUN (loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
        unreachable)",
        limits,
    );
    let failure = run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("refused");
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
}

#[test]
fn results_over_the_limit_leave_the_instance_usable() {
    let limits = Limits { results: ByteSize(100), ..Limits::default() };
    let echo =
        format!("{RETURN} RUN (call $return (i32.const 0) (local.get $ptr) (local.get $len)))");
    let fixture = GuestFixture::with_limits("run-only", &echo, limits);
    let mut instance = fixture.instance();
    let long = ["x".repeat(100)];
    let failure = run(&mut instance, MiniBatchData::Files(&long)).1.expect_err("too large");
    assert_eq!(failure.kind, FailureKind::BadResults);
    insta::assert_snapshot!(failure.message, @"run returned rows of 108 bytes, and limits.results allows 100 bytes. Raise the limit, or make mini_batch_size smaller");
    run(&mut instance, MiniBatchData::Files(&long[..0])).1.expect("it is usable");
    let many = vec![String::new(); 13];
    let failure = run(&mut instance, MiniBatchData::Files(&many)).1.expect_err("too many");
    assert!(failure.message.contains("rows of 104 bytes"), "{failure}");
}

#[test]
fn invalid_results_are_refused() {
    let with = |data: &str, case: u32, at: u32, count: u64| {
        let fixture = GuestFixture::new(
            "run-only",
            &format!(
                "{data} {RETURN} RUN (call $return (i32.const {case}) (i32.const {at}) (i32.const {count})))"
            ),
        );
        run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("invalid").to_string()
    };
    let bad_utf8 = r#"(data (i32.const 64) "\80\00\00\00\01\00\00\00\81\00\00\00\01\00\00\00") (data (i32.const 128) "a\ff")"#;
    let half = r#"(data (i32.const 64) "\80\00\00\00\01\00\00\00\81\00\00\00\01\00\00\00") (data (i32.const 128) "\c3\bc")"#;
    let table = [
        with(bad_utf8, 0, 64, 2),
        with(half, 0, 64, 2),
        with("", 0, 64, 0xffff_ffff),
        with("", 0, 0xffff_0000, 100_000),
        with("", 0, 66, 1),
        with("", 2, 64, 0x7fff_ffff),
        with("(data (i32.const 64) \"\\07\")", 1, 64, 1),
        with("", 3, 64, 1),
    ]
    .join("\n");
    insta::assert_snapshot!(table, @r"
    run returned text that is not valid UTF-8 (entry 2 of its results)
    run returned text that is not valid UTF-8 (entry 1 of its results)
    the entry script failed in run: a list or string in the results is outside of the guest's memory
    the entry script failed in run: a list or string in the results is outside of the guest's memory
    the entry script failed in run: a list in the results is not aligned
    the entry script failed in run: a list or string in the results is outside of the guest's memory
    the entry script failed in run: an outcome in the results is neither ok nor error, but 7
    the entry script failed in run: unexpected discriminant: 3
    ");
}

#[test]
fn rows_that_share_memory_are_counted_and_not_copied() {
    // 8,000 rows, all of which are the same 100,000 bytes.
    let body = format!(
        "{RETURN} (func $fill (local $i i32)
          (loop $l
            (i32.store (i32.add (i32.const 64) (i32.mul (local.get $i) (i32.const 8))) (i32.const 0))
            (i32.store (i32.add (i32.const 68) (i32.mul (local.get $i) (i32.const 8))) (i32.const 100000))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 8000)))))
        RUN (call $fill) (call $return (i32.const 0) (i32.const 64) (i32.const 8000)))"
    );
    let limits = Limits { results: ByteSize(1 << 20), ..Limits::default() };
    let fixture = GuestFixture::with_limits("run-only", &body, limits);
    let failure = run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("too large");
    assert!(failure.message.contains("rows of 763.0 MB"), "{failure}");
}

#[test]
fn log_lines_are_filtered_by_level() {
    // The levels are 0 (error), 2 (info) and 3 (debug).
    let body = r#"(import "sandmill:entry/host@0.2.0" "log" (func $log (param i32 i32 i32)))
        (data (i32.const 64) "loaded\nthe model")
        RUN
          (call $log (i32.const 2) (i32.const 64) (i32.const 16))
          (call $log (i32.const 3) (i32.const 64) (i32.const 16))
          (call $log (i32.const 0) (i32.const 64) (i32.const 6))
          (i32.const 0))"#;
    let fixture = GuestFixture::new("run-only", body);
    run(&mut fixture.instance(), MiniBatchData::Void).1.expect("succeeds");
    let log = std::fs::read_to_string(fixture.path("log.txt")).expect("reads");
    let words: Vec<&str> =
        log.lines().map(|line| line.split_once('Z').map_or(line, |(_, rest)| rest)).collect();
    assert_eq!(
        words,
        [" INFO    process007 loaded", "    the model", " ERROR   process007 loaded"]
    );
}

#[test]
fn a_guest_sees_the_logging_level() {
    let body = format!(
        r#"(import "sandmill:entry/host@0.2.0" "logging-level" (func $level (result i32)))
        {RETURN}
        (data (i32.const 64) "?")
        (data (i32.const 72) "\40\00\00\00\01\00\00\00")
        RUN
          (i32.store8 (i32.const 64) (i32.add (i32.const 48) (call $level)))
          (call $return (i32.const 0) (i32.const 72) (i32.const 1)))"#
    );
    let mut fixture = GuestFixture::new("run-only", &body);
    let levels = [LoggingLevel::Warning, LoggingLevel::Info, LoggingLevel::Debug];
    let seen = levels.map(|level| {
        fixture.grants.logging_level = level;
        let returned = run(&mut fixture.instance(), MiniBatchData::Void).1.expect("succeeds");
        returned.rows.concat()
    });
    assert_eq!(seen, ["1", "2", "3"]);
}

/// Imports of WASI preview 1, and a function that writes bytes at address 64 to a descriptor.
const WRITE: &str = r#"
    (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
    (func $write (param $fd i32) (param $length i32)
      (i32.store (i32.const 32) (i32.const 64))
      (i32.store (i32.const 36) (local.get $length))
      (if (call $fd_write (local.get $fd) (i32.const 32) (i32.const 1) (i32.const 40)) (then unreachable)))"#;

#[test]
fn a_panic_reaches_the_message() {
    let body = format!(
        r#"{WRITE} (data (i32.const 64) "\0athread '<unnamed>' panicked at src/lib.rs:10:5:\0aboom\0a")
        RUN (call $write (i32.const 2) (i32.const 54)) unreachable)"#
    );
    let fixture = GuestFixture::new("run-only", &body);
    let failure = run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("panics");
    assert_eq!(failure.kind, FailureKind::Trap);
    insta::assert_snapshot!(failure.message, @"the entry script panicked in run at src/lib.rs:10:5: boom");
    assert!(failure.detail.contains("stderr of the entry script:\n  thread"), "{}", failure.detail);
    let stderr = std::fs::read_to_string(fixture.path("stderr.txt")).expect("reads");
    assert!(stderr.ends_with("boom\n"), "{stderr}");
}

#[test]
fn stdout_is_cut_and_the_guest_continues() {
    // 17 MB in steps of 4,096 bytes.
    let body = format!(
        "{WRITE} RUN (local $i i32)
          (loop $l
            (call $write (i32.const 1) (i32.const 4096))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 4352))))
          (i32.const 0))"
    );
    let fixture = GuestFixture::new("run-only", &body);
    run(&mut fixture.instance(), MiniBatchData::Void).1.expect("nothing fails");
    let stdout = std::fs::read(fixture.path("stdout.txt")).expect("reads");
    let stdout = String::from_utf8_lossy(&stdout[16 << 20..]);
    assert!(stdout.starts_with("\n[sandmill: cut here, after 16777216 bytes; "), "{stdout}");
    let newest = std::fs::read(fixture.path("stdout.txt.1")).expect("reads");
    assert!(newest.starts_with(b"[sandmill: the newest of stdout.txt; "));
    let older = std::fs::read(fixture.path("stdout.txt.2")).expect("reads");
    assert!(newest.len() > 1 << 20 && older.is_empty());
}

#[test]
fn exit_is_a_separate_failure_kind() {
    let body = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        RUN (call $exit (i32.const 3)) unreachable)"#;
    let fixture = GuestFixture::new("run-only", body);
    let failure = run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("exits");
    assert_eq!(failure.kind, FailureKind::Exit);
    insta::assert_snapshot!(failure.message, @"the entry script ended itself in run, with an exit code other than 0: return an error instead");
}

#[test]
fn a_guest_can_sleep() {
    // A subscription to the monotonic clock (at address 64): 20 ms from now.
    let body = r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        RUN
          (i32.store (i32.const 80) (i32.const 1))
          (i64.store (i32.const 88) (i64.const 20000000))
          (if (call $poll (i32.const 64) (i32.const 128) (i32.const 1) (i32.const 192)) (then unreachable))
          (i32.const 0))"#;
    let fixture = GuestFixture::new("run-only", body);
    let (stats, result) = run(&mut fixture.instance(), MiniBatchData::Void);
    result.expect("wakes up");
    assert!(stats.seconds >= 0.02 && stats.seconds < 5.0, "{}", stats.seconds);
}

#[test]
fn a_missing_folder_or_invalid_code_is_a_clear_failure() {
    let mut fixture = GuestFixture::new("run-only", "RUN (i32.const 0))");
    fixture.grants.mounts[0].host = fixture.path("missing");
    let failure = fixture.program.instantiate(&fixture.grants).err().expect("no such folder");
    assert_eq!(failure.kind, FailureKind::HostFault);
    assert!(failure.message.contains("/inputs, cannot be opened: No such file"), "{failure}");
    let file = std::fs::File::open("/proc/self/exe").expect("opens");
    let with = Instrumentation::default();
    let limits = Limits::default();
    let failure = GuestProgram::load(&file, with, limits.stack).err().expect("no compiled code");
    assert!(failure.message.contains("cannot be loaded"), "{failure}");
}

/// Measures instead of checking: `cargo test --release -- --ignored --nocapture measure`.
#[test]
#[ignore = "prints times"]
fn measure() {
    let fixture = GuestFixture::new(
        "entry-script",
        &format!(
            r#"{} (func (export "NAME#init") (result i32) (i32.const 0)) (func (export "NAME#shutdown"))"#,
            reading::reader()
        ),
    );
    let each = |name: &str, count: u32, work: &mut dyn FnMut()| {
        work();
        let start = Time::now();
        (0..count).for_each(|_| work());
        println!("{name}: {:.2} us", start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    };
    each("instantiate and init", 1000, &mut || fixture.instance().init().1.expect("init"));
    let mut instance = fixture.instance();
    let path = ["/inputs/a.txt".to_owned()];
    std::fs::write(fixture.path("inputs/a.txt"), vec![b'x'; 2500]).expect("writes");
    each("read one file of 2.5 KB", 1000, &mut || {
        run(&mut instance, MiniBatchData::Files(&path)).1.expect("reads");
    });
    let echo = format!(
        "{RETURN} RUN (global.set $heap (i32.const 65536)) (call $return (i32.const 0) (local.get $ptr) (local.get $len)))"
    );
    let fixture = GuestFixture::new("run-only", &echo);
    let mut instance = fixture.instance();
    each("empty call", 10_000, &mut || {
        run(&mut instance, MiniBatchData::Files(&[])).1.expect("runs");
    });
    let rows = vec!["row of the usual length 0.123".to_owned(); 10_000];
    each("10,000 rows in and out", 100, &mut || {
        run(&mut instance, MiniBatchData::Files(&rows)).1.expect("runs");
    });
}
