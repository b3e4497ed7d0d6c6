//! WebAssembly exceptions, on which C++ exceptions and `setjmp` are built: in hot loops, across host calls,
//! in start functions, and on a growing heap.

use super::*;
use crate::compile::CompileError;

/// A tag with a number, a table for exceptions, and three functions: the first throws, the second throws and
/// catches, and the third returns the exception that it caught.
const THROWS: &str = r#"
    (tag $e (param i32))
    (table $kept 1 exnref)
    (func $throw (param i32) (throw $e (local.get 0)))
    (func $caught (param i32) (result i32)
      (block $h (result i32)
        (try_table (result i32) (catch $e $h) (call $throw (local.get 0)) (i32.const -1))))
    (func $held (param i32) (result exnref)
      (block $h (result exnref)
        (try_table (catch_all_ref $h) (call $throw (local.get 0)))
        unreachable))
"#;

fn run_throwing(limits: Limits, body: &str) -> Result<Collected, Failure> {
    let body = format!(
        "{THROWS}{RETURN} {body} (call $return (i32.const 0) (i32.const 0) (i32.const 0)))"
    );
    let fixture = GuestFixture::with_limits("run-only", &body, limits);
    run(&mut fixture.instance(), MiniBatchData::Void).1
}

fn small() -> Limits {
    Limits { memory: ByteSize(16 << 20), ..Limits::default() }
}

#[test]
fn exceptions_that_were_caught_hold_no_memory() {
    let body = "RUN (local $n i32)
        (loop $l
          (if (i32.ne (call $caught (local.get $n)) (local.get $n)) (then unreachable))
          (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 50000))))";
    assert_eq!(
        run_throwing(Limits { memory: ByteSize(1 << 20), ..Limits::default() }, body),
        Ok(Collected::default())
    );
}

#[test]
fn exceptions_that_are_kept_count_as_memory() {
    let body = "RUN (local $n i32)
        (drop (table.grow $kept (ref.null exn) (i32.const 100000)))
        (loop $l
          (table.set $kept (local.get $n) (call $held (local.get $n)))
          (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 100000))))";
    let failure = run_throwing(Limits { memory: ByteSize(4 << 20), ..Limits::default() }, body)
        .expect_err("they do not fit");
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    insta::assert_snapshot!(failure.message, @"the entry script ran out of memory in run: limits.memory allows 4 MB, it held 2.9 MB and asked for 2 MB more. Raise the limit, or hold less at a time");
}

#[test]
fn an_exception_that_nothing_catches_ends_the_call() {
    let failure =
        run_throwing(small(), "RUN (call $throw (i32.const 7))").expect_err("it is thrown");
    assert_eq!(failure.kind, FailureKind::Trap);
    insta::assert_snapshot!(failure.message, @"the entry script threw an exception in run and did not catch it. Have it catch the exception and return an error");
}

/// A guest that makes this call to the host and then throws, in a block that catches every exception.
fn catching(call: &str) -> String {
    format!(
        r#"(import "sandmill:entry/host@0.2.0" "read" (func $read (param i32 i32 i32)))
        {THROWS}{RETURN}
        RUN
          (block $caught (try_table (catch_all $caught) {call} (call $throw (i32.const 7))) unreachable)
          (call $return (i32.const 0) (i32.const 0) (i32.const 0)))"#
    )
}

#[test]
fn exceptions_are_caught_after_host_calls_also_with_fuel_and_deterministic() {
    let body = catching(
        "(call $read (i32.load (local.get $ptr)) (i32.load offset=4 (local.get $ptr)) (i32.const 32))",
    );
    for (fuel, deterministic) in [(false, false), (true, false), (false, true), (true, true)] {
        let with = Instrumentation { fuel, deterministic, profile: false };
        let limits = Limits { fuel: fuel.then_some(1 << 40), ..small() };
        let fixture = GuestFixture::compiled("run-only", &body, limits, with);
        let paths = ["/inputs/a.txt".to_owned()];
        let (_, result) = run(&mut fixture.instance(), MiniBatchData::Files(&paths));
        assert_eq!(result, Ok(Collected::default()), "{with:?}");
    }
}

/// The guest passes an address outside of its memory.
#[test]
fn a_trap_of_a_host_call_is_not_caught() {
    let body = catching("(call $read (i32.const -16) (i32.const 64) (i32.const 32))");
    let fixture = GuestFixture::new("run-only", &body);
    let (_, result) = run(&mut fixture.instance(), MiniBatchData::Void);
    assert_eq!(result.expect_err("the call traps").kind, FailureKind::Trap);
}

#[test]
fn exceptions_use_fuel() {
    let body = "RUN (loop $l (drop (call $caught (i32.const 1))) (br $l))";
    let failure =
        run_throwing(Limits { fuel: Some(100_000), ..small() }, body).expect_err("it never ends");
    assert_eq!(failure.kind, FailureKind::OutOfFuel);
}

#[test]
fn nested_catch_blocks_overflow_only_the_guests_stack() {
    // `$again` calls itself inside a block that catches exceptions, so the blocks nest until the stack
    // overflows. It throws no exception.
    let body = "(func $again (drop (block $h (result i32) (try_table (catch $e $h) (call $again)) (i32.const 0)))
          (call $again))
        RUN (call $again)";
    let failure = run_throwing(small(), body).expect_err("it never ends");
    insta::assert_snapshot!(failure.message, @"the entry script's stack overflowed in run: limits.stack allows 1 MB. Use less recursion, or raise the limit");
}

#[test]
fn a_start_function_that_throws_is_a_failure() {
    let body = format!(
        "{THROWS} (func $start (call $throw (i32.const 1))) (start $start) RUN (i32.const 0))"
    );
    let fixture = GuestFixture::new("run-only", &body);
    let failure = fixture.program.instantiate(&fixture.grants).err().expect("it throws");
    insta::assert_snapshot!(failure.message, @"the entry script threw an exception while it was started and did not catch it. Have it catch the exception and return an error");
}

#[test]
fn garbage_collected_types_and_shared_memories_are_refused() {
    let refused = |definitions: &str| -> String {
        let bytes = component("run-only", &format!("{definitions} RUN (i32.const 0))"));
        let error: CompileError =
            compile_here(&bytes, Instrumentation::default()).expect_err("refused");
        error.to_string()
    };
    let reported = [
        "(type $s (struct (field i32))) (func (drop (struct.new $s (i32.const 1))))",
        "(type $a (array (mut i32))) (func (drop (array.new $a (i32.const 1) (i32.const 9))))",
        "(func (drop (ref.i31 (i32.const 1))))",
        "(memory $shared 1 1 shared)",
    ]
    .map(refused);
    insta::assert_snapshot!(reported.join("\n"), @"
    it is not a valid component, or cannot be compiled: failed to parse WebAssembly module: struct indexed types not supported without the gc feature (at offset 0xf3)
    it is not a valid component, or cannot be compiled: failed to parse WebAssembly module: array indexed types not supported without the gc feature (at offset 0xf3)
    it is not a valid component, or cannot be compiled: failed to compile: wasm[0]::function[1]: WebAssembly translation error: Invalid input WebAssembly code at offset 421: gc support is not enabled
    it is not a valid component, or cannot be compiled: failed to parse WebAssembly module: threads must be enabled for shared memories (at offset 0x112)
    ");
}
