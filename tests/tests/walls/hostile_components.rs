//! Components that are hostile before any of their code runs. They attack the code that parses components,
//! converts modules to components, compiles components, or caches compiled code.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use sandmill_tests::{Ran, TestJob, add_world, good_row, wat_module};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A job with this entry script, its own cache, and two mini-batches.
fn job(entry_script: &[u8]) -> TestJob {
    TestJob::empty()
        .file("guest.wasm", entry_script)
        .yaml("name: test\nentry_script: guest.wasm\ninputs: {texts: in}\nmini_batch_size: 1")
        .yaml("process_count_per_node: 1\nlimits: {memory: 64 MB}")
        .file("in/a.txt", "")
        .file("in/b.txt", "")
        .watched()
        .own_cache()
}

/// Runs a job whose guest is unusual, but valid. Checks its rows.
#[track_caller]
fn run_good(job: TestJob) -> Ran {
    let ran = job.run(&[]);
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.sorted_output(), [good_row(0), good_row(1)], "{ran}");
    ran
}

/// Checks that an entry script is refused before Sandmill creates anything for it.
#[track_caller]
fn assert_refused(entry_script: &[u8], words: &str) {
    let ran = job(entry_script).run(&[]);
    ran.exits_with(2).says(words).left_nothing();
    assert!(!ran.has("job"), "{ran}");
    let cached = fs::read_dir(ran.dir().join("cache")).into_iter().flatten().count();
    assert_eq!(cached, 0, "{ran}");
    let checked = ran.into_job().command(&["check", "guest.wasm"]);
    checked.left_nothing();
    assert!([2, 42].contains(&checked.code), "{checked}");
}

/// A good guest with additional definitions.
fn good_with(definitions: &str) -> Vec<u8> {
    wat_module(&format!(
        "(module COMMON GOOD {definitions} (func RUN (call $good (local.get $id))))"
    ))
}

#[test]
fn large_but_good() {
    // 8 MB of data that are copied into memory, and 8 MB that are not.
    let data = "x".repeat(8 << 20);
    let huge = format!(
        "(memory $data 150) (data (memory $data) (i32.const 0) \"{data}\") (data \"{data}\")"
    );
    run_good(job(&good_with(&huge)));
    let functions: String = (0..10_000)
        .map(|n| format!("(func (param i32) (result i32) (i32.add (local.get 0) (i32.const {n})))"))
        .collect();
    run_good(job(&good_with(&functions)));
}

#[test]
fn bombs_for_the_compiler() {
    let nested = format!(
        "(func (param i32) {} {})",
        "block local.get 0 br_if 0 ".repeat(20_000),
        "end ".repeat(20_000)
    );
    run_good(job(&good_with(&nested)));
    let targets = "0 ".repeat(100_000);
    let jumps = format!("(func (param i32) (block (br_table {targets} (local.get 0))))");
    assert_refused(&good_with(&jumps), "cannot be compiled");
    let locals = format!("(func (local {}))", "i64 ".repeat(50_001));
    assert_refused(&good_with(&locals), "too many locals");
    let pyramid: String = (0..8000)
        .map(|n| {
            format!(
                "(local.set 1 (i64.mul (i64.add (local.get 1) (local.get {})) (local.get 0)))",
                n % 500
            )
        })
        .collect();
    let live = format!(
        "(func (param i64) (result i64) (local {}) {pyramid} (local.get 1))",
        "i64 ".repeat(500)
    );
    run_good(job(&good_with(&live)));
}

/// A guest's exceptions are kept in the engine's garbage-collected heap, which counts toward the guest's
/// memory limit. The wall lets the heap grow up to that limit.
#[test]
fn exceptions_behind_the_walls() {
    let throws = |count: &str| {
        format!(
            "(tag $e) (table $kept 100000 exnref)
             (func $held (result exnref) (block $h (result exnref) (try_table (catch_all_ref $h) (throw $e)) unreachable))
             (func $start (local $n i32) (loop $l
               (table.set $kept (local.get $n) (call $held))
               (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {count})))))
             (start $start)"
        )
    };
    run_good(job(&good_with(&throws("1000"))));
    let ran = job(&good_with(&throws("100000"))).run(&["--set", "limits.memory=4 MB"]);
    ran.exits_with(42)
        .says("ran out of memory while it was started: limits.memory allows 4 MB")
        .left_nothing();
}

/// The end of a component. It exports a useless `run`, so that Sandmill does not refuse the component for its
/// names, but checks the rest of it.
const USELESS_RUN: &str = r#"
    (core module $module (func (export "run")))
    (core instance $instance (instantiate $module))
    (func $run (canon lift (core func $instance "run")))
    (instance $entry (export "run" (func $run)))
    (export "sandmill:entry/entry-run@0.2.0" (instance $entry)))"#;

#[test]
fn endless_types() {
    // Each type is twice as large as the one before.
    let mut doubled = "(component (type $t0 (tuple u8 u8))".to_owned();
    for n in 1..40 {
        doubled += &format!("(type $t{n} (tuple $t{} $t{}))", n - 1, n - 1);
    }
    assert_refused(&wat_module(&(doubled + USELESS_RUN)), "guest.wasm: ");
    let mut deep = "(component (type $t0 (list u8))".to_owned();
    for n in 1..5000 {
        deep += &format!("(type $t{n} (list $t{}))", n - 1);
    }
    assert_refused(&wat_module(&(deep + USELESS_RUN)), "guest.wasm: ");
    // Components nested in components: section 4, the length, and the inner component.
    let mut inside = b"\0asm\x0d\0\x01\0".to_vec();
    for _ in 0..5000 {
        let mut outside = b"\0asm\x0d\0\x01\0\x04".to_vec();
        let mut length = inside.len();
        while length >= 0x80 {
            outside.push(length.to_le_bytes()[0] | 0x80);
            length >>= 7;
        }
        outside.push(length.to_le_bytes()[0]);
        outside.extend(inside);
        inside = outside;
    }
    assert_refused(&inside, "guest.wasm");
}

/// Core modules whose metadata contradicts their code.
#[test]
fn modules_that_lie_about_their_world() {
    let wrong = "the core module cannot be made into a component";
    let memory = "(memory (export \"memory\") 1)";
    let run = "(func (export \"sandmill:entry/entry-run@0.2.0#run\")";
    let head = "(param i32 i32 i32 i64 i32 i32 i32 i32 i32) (result i32) unreachable";
    for (body, world) in [
        // The module exports nothing that its world names, or exports a function with another type.
        (memory.to_owned(), "run-only"),
        (format!("{memory} {run})"), "run-only"),
        // The world needs a memory and an allocator, but the module has neither.
        (format!("{run} {head})"), "run-only"),
        // The metadata promises `init`, but the module has only `run`.
        (format!("{memory} {run} {head})"), "entry-script"),
    ] {
        let module = wat::parse_str(format!("(module {body})")).unwrap();
        assert_refused(&with_world(module, world), wrong);
    }
    // The module imports functions that its world does not have, or has with another type.
    for import in [
        "(import \"evil\" \"launch\" (func))",
        "(import \"wasi_snapshot_preview1\" \"fd_write\" (func (param f64)))",
        "(import \"wasi_snapshot_preview1\" \"no_such_function\" (func))",
        "(import \"sandmill:entry/host@0.2.0\" \"log\" (func (param i64)))",
    ] {
        assert_refused(&with_world(importing(import), "run-only"), wrong);
    }
    // The metadata is noise, or is truncated.
    let mut noise = importing("");
    custom_section(&mut noise, "component-type:x", &[0xf7; 100]);
    assert_refused(&noise, wrong);
    let whole = with_world(importing(""), "run-only");
    assert_refused(&whole[..whole.len() - 30], "guest.wasm");
}

/// A module with an additional import. It exports everything that the world `run-only` needs.
fn importing(import: &str) -> Vec<u8> {
    let whole = format!(
        "(module {import} (memory (export \"memory\") 1)
           (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) unreachable)
           (func (export \"sandmill:entry/entry-run@0.2.0#run\")
             (param i32 i32 i32 i64 i32 i32 i32 i32 i32) (result i32) unreachable))"
    );
    wat::parse_str(whole).unwrap()
}

fn with_world(mut module: Vec<u8>, world: &str) -> Vec<u8> {
    add_world(&mut module, world);
    module
}

fn custom_section(module: &mut Vec<u8>, name: &str, content: &[u8]) {
    let length = 1 + name.len() + content.len();
    assert!(length < 0x80 * 0x80 && name.len() < 0x80);
    let high = length >> 7;
    let numbers = [length, high, name.len()].map(|number| number.to_le_bytes()[0]);
    module.extend([0, numbers[0] | 0x80, numbers[1], numbers[2]]);
    module.extend(name.as_bytes());
    module.extend(content);
}

/// The files of compiled code in a job's cache.
fn entries(job: &TestJob) -> Vec<PathBuf> {
    let folder = fs::read_dir(job.path("cache")).unwrap();
    folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

/// Damages the only entry of a cache with `spoil`. Checks that the job compiles again and returns the right
/// rows.
fn compile_again_after(case: &str, job: TestJob, spoil: impl Fn(&Path)) -> TestJob {
    let entries = entries(&job);
    assert_eq!(entries.len(), 1, "{case}");
    spoil(&entries[0]);
    let ran = job.run(&["--overwrite"]);
    ran.exits_with(0).says("compiling ").left_nothing();
    assert_eq!(ran.sorted_output(), [good_row(0), good_row(1)], "{case}\n{ran}");
    ran.into_job()
}

#[test]
fn poisoned_cache_entries_are_not_run() {
    let mut job = run_good(job(&good_with(""))).into_job();
    let change = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    let flip_bit = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    job = compile_again_after("one bit", job, |path| change(path, &flip_bit));
    job = compile_again_after("cut", job, |path| {
        change(path, &|bytes| bytes.truncate(bytes.len() / 2));
    });
    job = compile_again_after("no end", job, |path| {
        change(path, &|bytes| bytes.truncate(bytes.len() - 1));
    });
    job = compile_again_after("empty", job, |path| change(path, &Vec::clear));
    job = compile_again_after("longer", job, |path| change(path, &|bytes| bytes.extend([0; 100])));
    job = compile_again_after("open to others", job, |path| {
        fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
    });
    job = compile_again_after("a link", job, |path| {
        let elsewhere = path.with_file_name("../elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        fs::write(&elsewhere, "not what it was").unwrap();
        std::os::unix::fs::symlink(&elsewhere, path).unwrap();
    });
    // An undamaged entry is used without compiling.
    let ran = job.run(&["--overwrite"]);
    ran.exits_with(0).left_nothing();
    assert!(!ran.stderr.contains("compiling "), "{ran}");
}

#[test]
fn stale_cache_entries_are_left_alone_or_removed() {
    let job = run_good(job(&good_with(""))).into_job();
    // Adds three files to the cache: an entry of another engine, a temporary file of a killed compiler, and a
    // temporary file of a running compiler.
    let entry = entries(&job)[0].clone();
    let (name, _) = entry.file_name().unwrap().to_str().unwrap().split_once('-').unwrap();
    let other = entry.with_file_name(format!("{name}-{}", "0".repeat(32)));
    fs::write(&other, "of another engine").unwrap();
    let killed = fs::File::create(entry.with_file_name("tmp-1-0")).unwrap();
    killed.set_modified(SystemTime::now() - Duration::from_secs(2 * 24 * 3600)).unwrap();
    let running = fs::File::create(entry.with_file_name("tmp-1-1")).unwrap();
    running.lock().unwrap();
    let ran = job.run(&["--overwrite"]);
    ran.exits_with(0);
    assert!(other.exists() && !ran.has("cache/tmp-1-0") && ran.has("cache/tmp-1-1"), "{ran}");
    fs::remove_file(ran.dir().join("cache/tmp-1-1")).unwrap();
    drop((killed, running));
    ran.left_nothing();
}

#[test]
fn a_cache_that_others_can_write_is_not_used() {
    let job = run_good(job(&good_with(""))).into_job();
    fs::set_permissions(job.path("cache"), PermissionsExt::from_mode(0o777)).unwrap();
    let ran = job.run(&["--overwrite"]);
    ran.exits_with(2).says("open to others (mode 777)").says("chmod 700");
}
