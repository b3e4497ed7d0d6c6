//! What a call into the sandbox and back costs: with a table, with paths, with files that the guest
//! reads, and with nothing. The table and the files are also copied and read without a sandbox, for
//! comparison.

use arrow::buffer::Buffer;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sandmill::compile::{Instrumentation, engine_with_stack, testing};
use sandmill::model::{Failure, Limits, Mount};
use sandmill::sandbox::{Grants, GuestProgram, Instance, MiniBatchData, ResultSink, RunContext};
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;

/// Files of a mini-batch, and bytes of each.
const FILES: usize = 100;
const FILE_BYTES: usize = 2 << 10;

const TABLE_BYTES: usize = 1 << 20;

/// Returns its input: a table as a table, and paths as rows. Without input, it returns no rows. Each call
/// starts with an empty heap.
const ECHO: &str = r#"RUN
    (global.set $heap (i32.const 65536))
    (i32.store8 (i32.const 16) (i32.const 0))
    (i32.store8 (i32.const 20) (i32.shl (i32.and (local.get $kind) (i32.const 1)) (i32.const 1)))
    (i32.store (i32.const 24) (local.get $ptr))
    (i32.store (i32.const 28) (local.get $len))
    (i32.const 16))"#;

/// Reads each file of the mini-batch with the host's function, and returns no rows.
const READ: &str = r#"(import "sandmill:entry/host@0.2.0" "read" (func $read (param i32 i32 i32)))
    RUN (local $at i32) (local $heap_then i32)
    (local.set $heap_then (global.get $heap))
    (loop $next
      (global.set $heap (local.get $heap_then))
      (local.set $at (i32.add (local.get $ptr) (i32.mul (local.get $len) (i32.const 8))))
      (call $read (i32.load (i32.sub (local.get $at) (i32.const 8)))
        (i32.load (i32.sub (local.get $at) (i32.const 4))) (i32.const 32))
      (if (i32.load8_u (i32.const 32)) (then unreachable))
      (local.set $len (i32.sub (local.get $len) (i32.const 1)))
      (br_if $next (local.get $len)))
    (global.set $heap (i32.const 65536))
    (i32.store8 (i32.const 16) (i32.const 0))
    (i32.store8 (i32.const 20) (i32.const 0))
    (i32.store (i32.const 28) (i32.const 0))
    (i32.const 16))"#;

/// An instance that sees `folder` as `/inputs`.
fn instance(body: &str, folder: &Path) -> Instance {
    let limits = Limits::default();
    let with = Instrumentation::default();
    let engine = engine_with_stack(with, limits.stack.0.try_into().expect("a stack of some MiB"))
        .expect("an engine");
    let component = testing::component("run-only", body);
    let compiled = engine.precompile_component(&component).expect("a component");
    let mut code = tempfile::tempfile().expect("a temporary file");
    code.write_all(&compiled).expect("room for compiled code");
    let program = GuestProgram::load(&code, with, limits.stack).expect("compiled code");
    let grants = Grants {
        mounts: vec![Mount { host: folder.into(), guest: "/inputs".into(), writable: false }],
        limits,
        ..Grants::sample(folder)
    };
    program.instantiate(&grants).expect("an instance")
}

/// Counts the bytes that come back.
#[derive(Default)]
struct Count(usize);

impl ResultSink for Count {
    fn row(&mut self, row: &str) {
        self.0 += black_box(row).len();
    }
    fn failed(&mut self, _index: usize, _reason: &str) {}
    fn table(&mut self, ipc: &[u8]) -> Result<(), Failure> {
        self.0 += black_box(ipc).len();
        Ok(())
    }
}

/// Calls `run`, and returns how many bytes came back.
fn call(instance: &mut Instance, data: MiniBatchData<'_>) -> usize {
    let mut count = Count::default();
    instance.run(data, &RunContext::sample(), &mut count).1.expect("a guest that returns");
    count.0
}

/// Passes nothing, a table, or a list of paths into the sandbox and back.
fn echo(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut instance = instance(ECHO, folder.path());
    let mut group = criterion.benchmark_group("crossing");
    group.bench_function("nothing, in and out", |bench| {
        bench.iter(|| call(&mut instance, MiniBatchData::Void));
    });
    let table = [Buffer::from(vec![7_u8; TABLE_BYTES])];
    assert_eq!(call(&mut instance, MiniBatchData::Table(&table)), TABLE_BYTES);
    group.throughput(Throughput::Bytes(TABLE_BYTES as u64));
    group.bench_function("a table of 1 MB, in and out", |bench| {
        bench.iter(|| call(&mut instance, MiniBatchData::Table(&table)));
    });
    let mut there = vec![0_u8; TABLE_BYTES];
    let mut back = vec![0_u8; TABLE_BYTES];
    group.bench_function("1 MB copied there and back, no sandbox", |bench| {
        bench.iter(|| {
            there.copy_from_slice(black_box(&table[0]));
            back.copy_from_slice(black_box(&there));
            black_box(back[0])
        });
    });
    let paths: Vec<String> = (0..FILES).map(|n| format!("/inputs/texts/{n:05}.txt")).collect();
    assert_eq!(call(&mut instance, MiniBatchData::Files(&paths)), FILES * paths[0].len());
    group.throughput(Throughput::Elements(FILES as u64));
    group.bench_function("100 paths in, 100 rows out", |bench| {
        bench.iter(|| call(&mut instance, MiniBatchData::Files(&paths)));
    });
    group.finish();
}

/// Whole files that a guest reads through the host.
fn read(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<String> = (0..FILES).map(|n| format!("{n:05}.txt")).collect();
    for name in &names {
        std::fs::write(folder.path().join(name), [b'x'; FILE_BYTES]).expect("a file");
    }
    let mut group = criterion.benchmark_group("files");
    group.throughput(Throughput::Elements(FILES as u64));
    let mut instance = instance(READ, folder.path());
    let inside: Vec<String> = names.iter().map(|name| format!("/inputs/{name}")).collect();
    group.bench_function("100 of 2 KB, read by host.read", |bench| {
        bench.iter(|| call(&mut instance, MiniBatchData::Files(&inside)));
    });
    let outside: Vec<_> = names.iter().map(|name| folder.path().join(name)).collect();
    group.bench_function("100 of 2 KB, std::fs::read, no sandbox", |bench| {
        bench.iter(|| {
            let lengths = outside.iter().map(|path| std::fs::read(path).expect("a file").len());
            black_box(lengths.sum::<usize>())
        });
    });
    group.finish();
}

criterion_group!(crossing, echo, read);
criterion_main!(crossing);
