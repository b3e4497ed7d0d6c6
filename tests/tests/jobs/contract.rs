//! Guarantees for entry scripts from any toolchain: when Sandmill calls each function, and what it does with
//! the return value.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, for_version_0_1, guest, python_guest, root, wat_module};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve};

/// A job over `a.txt`, `bb.txt` and `ccc.txt`, with one file in each mini-batch.
fn three_files(entry_script: &std::path::Path) -> TestJob {
    TestJob::new(entry_script)
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("in/a.txt", "1")
        .file("in/bb.txt", "22")
        .file("in/ccc.txt", "333")
}

/// Rules E2, E3 in docs/parallel-run-step.md.
#[test]
fn init_and_shutdown_are_optional() {
    let ran = three_files(&guest("run_only")).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt\nbb.txt\nccc.txt\n");
    assert!(
        ran.log("user/entry_script_log/0/process000.log.txt")
            .contains("INFO    process000 mini-batch 2")
    );
}

#[test]
fn a_component_of_another_toolchain_works() {
    let ran = three_files(&python_guest())
        .yaml("arguments: [--prefix, 'py ']")
        .run(&["--set", "mini_batch_size=2"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "py a.txt: 1\npy bb.txt: 2\npy ccc.txt: 3\n");
    let log = ran.log("user/entry_script_log/0/process000.log.txt");
    assert!(log.contains("init of process000 with ['--prefix', 'py ']"), "{log}");
    assert!(log.trim_end().ends_with("shutdown"), "{log}");
}

#[test]
fn components_for_version_0_1_are_accepted() {
    let component = for_version_0_1(&std::fs::read(guest("run_only")).expect("it reads"));
    let ran = three_files("old.wasm".as_ref()).file("old.wasm", component).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a.txt\nbb.txt\nccc.txt\n");
    let log = ran.log("user/entry_script_log/0/process000.log.txt");
    assert!(log.contains("INFO    process000 mini-batch 2"), "{log}");
}

/// `host.logging-level` is new in version 0.2.
#[test]
fn a_component_for_version_0_1_cannot_have_what_0_2_added() {
    let module = wat_module(
        r#"(module
            (import "sandmill:entry/host@0.2.0" "logging-level" (func $level (result i32)))
            COMMON
            (func RUN (call $level)))"#,
    );
    let module = for_version_0_1(&module);
    let ran = three_files("old.wasm".as_ref()).file("old.wasm", module).run(&[]);
    ran.exits_with(2).says("component imports instance `sandmill:entry/host@0.1.0`");
    ran.says(
        "instance export `logging-level` has the wrong type: function implementation is missing",
    );
}

/// A core module with the contract's metadata. `body`: the WebAssembly text of `run`.
fn core_module_with_body(body: &str, resolve: &Resolve, package: PackageId) -> Vec<u8> {
    let mut module = wat::parse_str(
        r#"(module
            (memory (export "memory") 1)
            (global $free (mut i32) (i32.const 1024))
            (data (i32.const 16) "a row of a core module")
            ;; At 64: ok, rows, and the list of one text at 80.
            (data (i32.const 64) "\00\00\00\00\00\00\00\00\50\00\00\00\01\00\00\00")
            (data (i32.const 80) "\10\00\00\00\16\00\00\00")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
              (local $at i32)
              (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
              (global.set $free (i32.add (local.get $at) (local.get 3)))
              (local.get $at))
            (func $divides_by_nothing (result i32)
              (i32.div_s (i32.const 64) (i32.const 0)))
            (func (export "sandmill:entry/entry-run@0.2.0#run")
              (param i32 i32 i32 i64 i32 i32 i32 i32 i32) (result i32)
              BODY))"#
            .replace("BODY", body),
    )
    .expect("the module is well-formed");
    let world = resolve.select_world(&[package], Some("run-only")).expect("the world is there");
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8)
        .expect("metadata fits");
    module
}

/// In some languages, the allocator works only after `_initialize` was called. In Go, for example, it belongs
/// to the language's runtime.
#[test]
fn a_core_module_whose_allocator_needs_initialize_works() {
    let module = wat_module(
        r#"(module
            (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
            (memory (export "memory") 2)
            (global $free (mut i32) (i32.const 0))
            (func (export "_initialize")
              (drop (call $environ (i32.const 2048) (i32.const 2052)))
              (global.set $free (i32.const 65536)))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
              (local $at i32)
              (if (i32.eqz (global.get $free)) (then unreachable))
              (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
              (global.set $free (i32.add (local.get $at) (local.get 3)))
              (local.get $at))
            GOOD
            (func RUN (call $good (local.get $id))))"#,
    );
    let ran = three_files(std::path::Path::new("late.wasm")).file("late.wasm", module).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "good 00\ngood 01\ngood 02\n");
}

/// A core module whose `run` always returns one row.
fn core_module() -> Vec<u8> {
    let (resolve, package) = contract();
    core_module_with_body("(i32.const 64)", &resolve, package)
}

fn contract() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(root().join("wit")).expect("the contract parses");
    (resolve, package)
}

/// Rules E7, E1: a component is refused before it runs if the return type of its `run` is neither rows nor a
/// table.
#[test]
fn run_must_return_rows_or_a_table() {
    let text = std::fs::read_to_string(root().join("wit/entry.wit")).expect("the contract reads");
    // Removes the parts of the contract that need other packages.
    let (start, rest) = text.split_once("/// What the job's models are").expect("the models");
    let (_, rest) = rest.split_once("/// The three functions").expect("the functions");
    let (rest, _) = rest.split_once("/// What an entry script imports").expect("its end");
    let text = format!("{start}///{rest}").replace("-> result<results, string>;", "-> string;");
    let mut resolve = Resolve::default();
    let package = resolve.push_str("entry.wit", &text).expect("it parses");
    let module = core_module_with_body("(i32.const 80)", &resolve, package);
    let ran = three_files("core.wasm".as_ref()).file("core.wasm", module).run(&[]);
    ran.exits_with(2);
    assert!(!ran.has("job/output"), "{ran}");
    assert_snapshot!(ran.messages(), @"
    error: [DIR]/core.wasm: run of sandmill:entry/entry-run@0.2.0 has the wrong type
      found:    func(variant { files(list<string>), table(list<u8>), void }, record { id: u64, dataset: string, attempt: u32, partition-key-value: list<tuple<string, string>> }) -> string
      expected: func(variant { files(list<string>), table(list<u8>), void }, record { id: u64, dataset: string, attempt: u32, partition-key-value: list<tuple<string, string>> }) -> result<variant { rows(list<string>), outcomes(list<result<string, string>>), table(list<u8>) }, string>
    Generate its bindings from the contract's wit/ folder
    ");
}

/// Rules F16, T5. Stack traces contain the function names that the script's author chose, with any toolchain.
#[test]
fn stack_traces_have_the_names_of_functions() {
    let (resolve, package) = contract();
    let module = core_module_with_body("(call $divides_by_nothing)", &resolve, package);
    let ran = three_files("core.wasm".as_ref()).file("core.wasm", module).run(&[]);
    ran.exits_with(42).says("the entry script trapped in run: integer divide by zero");
    let errors = ran.log("user/error/0/process000.txt");
    assert!(errors.contains("   0: divides_by_nothing\n"), "{errors}");
    let ran = three_files(&python_guest()).yaml("arguments: [--fail, bb.txt]").run(&[]);
    ran.exits_with(42);
    let errors = ran.log("user/error/0/process000.txt");
    assert!(errors.contains("in raises_as_asked"), "{errors}");
    assert!(errors.contains("ValueError: bb.txt is not wanted"), "{errors}");
}

#[test]
fn a_core_module_is_converted_when_it_is_run() {
    let ran = three_files("core.wasm".as_ref()).file("core.wasm", core_module()).run(&[]);
    // One row for each of three mini-batches.
    ran.exits_with(0);
    assert_eq!(ran.output(), "a row of a core module\n".repeat(3));
}

#[test]
fn build_converts_a_core_module() {
    let job = three_files("core.component.wasm".as_ref()).file("core.wasm", core_module());
    let built = job.command(&["build", "core.wasm"]);
    built.exits_with(0);
    assert_eq!(built.stdout, "core.component.wasm\n");
    let ran = built.into_job().run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "a row of a core module\n".repeat(3));
}

/// Rule C26.
#[test]
fn void_mini_batches_have_no_input() {
    let ran = TestJob::new(&guest("void")).yaml("rank_mini_batch_count: 12").run(&[]);
    ran.exits_with(0).says("mini-batches  12\n");
    let mut expected: Vec<String> = (0..12).map(|rank| format!("rank {rank}")).collect();
    expected.sort();
    assert_eq!(ran.sorted_output(), expected);
}

/// Rules E1, E2.
#[test]
fn init_is_called_once_in_each_worker() {
    let mut job = TestJob::new(&guest("counts_runs"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 2\nprocess_count_per_node: 2");
    for number in 0..40 {
        job = job.file(&format!("in/{number:02}.txt"), "");
    }
    let ran = job.run(&[]);
    ran.exits_with(0);
    let mut runs = [Vec::new(), Vec::new()];
    for row in ran.output().lines() {
        let (_, rest) = row.split_once(' ').expect("NAME AGENT RUN");
        let (agent, run) = rest.split_once(' ').expect("NAME AGENT RUN");
        let agent = match agent {
            "process000" => 0,
            "process001" => 1,
            other => panic!("worker {other}"),
        };
        runs[agent].push(run.parse::<usize>().expect("a number"));
    }
    // A worker keeps its instance, whose counter counts runs. Each run returns two rows.
    for runs in &mut runs {
        runs.sort_unstable();
        runs.dedup();
        assert!(runs.iter().copied().eq(1..=runs.len()), "{runs:?}");
    }
    assert_eq!(runs[0].len() + runs[1].len(), 20);
}

/// Rule E8.
#[test]
fn a_failed_item_does_not_fail_the_others() {
    let job = TestJob::new(&guest("outcomes"))
        .yaml("inputs: {texts: in}\nprocess_count_per_node: 1")
        .file("in/good.txt", "1")
        .file("in/bad.txt", "22")
        .file("in/very, \"bad\".txt", "")
        .file("in/z.txt", "333");
    let ran = job.run(&["--set", "error_threshold=2"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "good.txt: 1\nz.txt: 3\n");
    assert_snapshot!(ran.failed_items(), @r#"
    mini_batch,item,file,line,row,attempt,worker,reason
    0,/inputs/texts/bad.txt,/inputs/texts/bad.txt,,,1,[WORKER],bad.txt is called bad
    0,"/inputs/texts/very, ""bad"".txt","/inputs/texts/very, ""bad"".txt",,,1,[WORKER],"very, ""bad"".txt is called bad"
    "#);
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    Job test completed in [TIME].
      mini-batches  1, of which 1 has fewer rows than items
      items         4, of which 2 failed (see job/logs/failed_items.csv)
      rows          2
      output        job/output/parallel_run_step.txt
    ");
    // Now one more item fails than is allowed.
    let ran = ran.into_job().run(&["--overwrite", "--set", "error_threshold=1"]);
    ran.exits_with(42);
    assert_snapshot!(ran.redacted(), @"
    job test: 1 worker
    Job test failed after [TIME]: 2 items failed, more than error_threshold allows (1); to continue despite failures, set error_threshold to the number to tolerate, or to -1
      first cause   bad.txt is called bad
      item          /inputs/texts/bad.txt
      where         mini-batch 0, process000
      mini-batches  1, of which 1 has fewer rows than items
      items         4, of which 2 failed (see job/logs/failed_items.csv)
      kept          2 rows, in job/output/parallel_run_step.txt
      read next     job/logs/failed_items.csv
      what to do    to tolerate more and resume: sandmill resume job --set error_threshold=N; -1 tolerates all
      next command  sandmill explain job
    ");
}

/// Rules E6, E7, O2.
#[test]
fn tables_are_passed_in_and_returned() {
    let job = TestJob::new(&guest("echo_table"))
        .yaml("inputs: {rows: {path: in.csv, format: csv}}\nprocess_count_per_node: 1")
        .file("in.csv", "id,width,name,good\n1,2.5,two words,true\n2,,plain,false\n");
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r#"
    1 2.5 "two words" True
    2  plain False
    "#);
    let ran = ran.into_job().run(&["--overwrite", "--set", "arguments=[--rows]"]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @r"
    1,2.5,two words,true
    2,-,plain,false
    ");
}
