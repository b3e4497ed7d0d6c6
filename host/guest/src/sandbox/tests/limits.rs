//! Limits that the engine enforces, and the messages about them.

use super::*;
use crate::compile::engine;
use crate::sandbox::limits::Budget;
use crate::sandbox::traps::{self, TrapContext};
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

/// The failure of a component without imports, given as text, when it starts or in its function `run`.
fn failure_of(engine: &Engine, text: &str, limits: &Limits) -> Failure {
    let bytes = wat::parse_str(text).expect("well-formed");
    let component = Component::new(engine, bytes).expect("valid");
    let mut store = Store::new(engine, Budget::new(limits.memory));
    store.limiter(|budget| budget);
    store.set_max_component_handles(usize::try_from(limits.handles).expect("small"));
    let linker = Linker::new(engine);
    let (function, result) = match linker.instantiate(&mut store, &component) {
        Err(error) => ("starting", Err(error)),
        Ok(instance) => {
            let run = instance.get_typed_func::<(), ()>(&mut store, "run").expect("there");
            ("run", run.call(&mut store, ()))
        }
    };
    let error = result.expect_err("it goes too far");
    let refusal = store.data_mut().take_refusal();
    let context = TrapContext { function, refusal, ..TrapContext::sample(limits) };
    traps::failure(&error, &context)
}

#[test]
fn the_guests_own_resources_count_as_handles() {
    let text = r#"(component
        (type $r (resource (rep i32)))
        (core func $new (canon resource.new $r))
        (core module $m
          (import "" "new" (func $new (param i32) (result i32)))
          (func (export "run") (loop $l (drop (call $new (i32.const 1))) (br $l))))
        (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
        (func (export "run") (canon lift (core func $i "run"))))"#;
    let engine = engine(Instrumentation::default()).expect("an engine");
    let limits = Limits { handles: 50, ..Limits::default() };
    let failure = failure_of(&engine, text, &limits);
    assert_eq!(failure.kind, FailureKind::OverLimit);
    insta::assert_snapshot!(failure.message, @"limits.handles allows 50 open files and other handles at once; in run the entry script asked for more. Have it close what it does not need, or raise the limit");
}

#[test]
fn an_entry_script_with_too_many_parts_is_refused() {
    let engine = engine(Instrumentation::default()).expect("an engine");
    let instances = "(core instance (instantiate $m))".repeat(600);
    let reported = ["(memory 0)", "(table 0 funcref) (table 0 funcref)", ""].map(|part| {
        let text = format!(
            "(component
              (component $c (core module $m {part}) {instances})
              (instance (instantiate $c)) (instance (instantiate $c)))"
        );
        let failure = failure_of(&engine, &text, &Limits::default());
        assert_eq!(failure.kind, FailureKind::OverLimit, "{failure}");
        failure.message
    });
    insta::assert_snapshot!(reported.join("\n"), @"
    the entry script has more than 100 memories: no setting allows that
    the entry script has more than 1000 tables: no setting allows that
    the entry script has more than 1000 instances of modules: no setting allows that
    ");
}

/// The code is compiled once for all stack sizes.
#[test]
fn the_stack_has_the_size_that_the_job_sets() {
    let body = "(func $f (param i32) (result i32)
          (if (result i32) (local.get 0)
            (then (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (local.get 0)))
            (else (i32.const 0))))
        RUN (drop (call $f (i32.const 100000))) (i32.const 0))";
    let overflows = |stack: u64| {
        let limits = Limits { stack: ByteSize(stack), ..Limits::default() };
        let thread = std::thread::Builder::new().stack_size(guest_thread_stack(&limits, false));
        let fixture = GuestFixture::with_limits("run-only", body, limits);
        let run = thread.spawn(move || run(&mut fixture.instance(), MiniBatchData::Void).1);
        run.expect("starts").join().expect("does not abort").err()
    };
    let failure = overflows(64 << 10).expect("too deep");
    assert_eq!(failure.kind, FailureKind::Trap);
    insta::assert_snapshot!(failure.message, @"the entry script's stack overflowed in run: limits.stack allows 64 KB. Use less recursion, or raise the limit");
    assert_eq!(overflows(64 << 20), None);
}

#[test]
fn a_call_transfers_no_more_than_allowed() {
    // Opens a file by a path of 2 MB, which is at address 64 KB.
    let body = r#"(import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        RUN
          (drop (memory.grow (i32.const 64)))
          (memory.fill (i32.const 65536) (i32.const 97) (i32.const 2097152))
          (drop (call $open (i32.const 3) (i32.const 0) (i32.const 65536) (i32.const 2097152) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 32)))
          (i32.const 0))"#;
    let limits = Limits { transfer: ByteSize(1 << 20), ..Limits::default() };
    let fixture = GuestFixture::with_limits("run-only", body, limits);
    let failure = run(&mut fixture.instance(), MiniBatchData::Void).1.expect_err("too much");
    assert_eq!(failure.kind, FailureKind::OverLimit);
    insta::assert_snapshot!(failure.message, @"limits.transfer allows 1 MB in one call between host and entry script; in run the entry script handed over more. Have it hand over less at a time, or raise the limit");
}
