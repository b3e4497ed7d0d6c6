//! The imports that an entry script may have, and the messages about any other import.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob};

/// A component with these imports, whose `run` returns no rows.
fn component(imports: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
        {imports}
        (type $pair (tuple string string))
        (type $batch' (variant (case "files" (list string)) (case "table" (list u8)) (case "void")))
        (import "batch" (type $batch (eq $batch')))
        (type $context' (record (field "id" u64) (field "dataset" string) (field "attempt" u32)
          (field "partition-key-value" (list $pair))))
        (import "context" (type $context (eq $context')))
        (type $results' (variant (case "rows" (list string))
          (case "outcomes" (list (result string (error string)))) (case "table" (list u8))))
        (import "results" (type $results (eq $results')))
        (core module $m
          (memory (export "memory") 1 9)
          (table 3 funcref)
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
          (func (export "run") (param i32 i32 i32 i64 i32 i32 i32 i32 i32) (result i32)
            i32.const 0)
          (@producers (language "Rust" "1.2.3") (processed-by "tool\1b[31m" "4")))
        (core instance $i (instantiate $m))
        (func $run (param "b" $batch) (param "c" $context)
          (result (result $results (error string)))
          (canon lift (core func $i "run") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc"))))
        (export "run" (func $run)))"#
    );
    wat::parse_str(text).unwrap()
}

/// Imports of these names as instances without functions.
fn instances(names: &[&str]) -> String {
    names.iter().map(|name| format!("(import \"{name}\" (instance))\n")).collect()
}

fn run(imports: &str) -> Ran {
    TestJob::empty()
        .yaml("name: test\nentry_script: entry.wasm\nrank_mini_batch_count: 1")
        .file("entry.wasm", component(imports))
        .run(&[])
}

/// A job's message about imports that are refused.
fn refused(imports: &str) -> String {
    let ran = run(imports);
    ran.exits_with(2);
    assert!(!ran.has("job"), "nothing is left\n{ran}");
    ran.messages()
}

/// Interfaces that an entry script may import.
const GRANTED: [&str; 32] = [
    "wasi:cli/environment@0.2.0",
    "wasi:cli/exit@0.2.0",
    "wasi:cli/stdin@0.2.0",
    "wasi:cli/stdout@0.2.0",
    "wasi:cli/stderr@0.2.0",
    "wasi:cli/terminal-input@0.2.0",
    "wasi:cli/terminal-output@0.2.0",
    "wasi:cli/terminal-stdin@0.2.0",
    "wasi:cli/terminal-stdout@0.2.0",
    "wasi:cli/terminal-stderr@0.2.0",
    "wasi:clocks/wall-clock@0.2.3",
    "wasi:clocks/monotonic-clock@0.2.3",
    "wasi:filesystem/preopens@0.2.0",
    "wasi:filesystem/types@0.2.0",
    "wasi:io/error@0.2.0",
    "wasi:io/poll@0.2.0",
    "wasi:io/streams@0.2.0",
    "wasi:random/random@0.2.0",
    "wasi:random/insecure@0.2.0",
    "wasi:random/insecure-seed@0.2.0",
    "wasi:sockets/network@0.2.0",
    "wasi:sockets/instance-network@0.2.0",
    "wasi:sockets/tcp@0.2.0",
    "wasi:sockets/tcp-create-socket@0.2.0",
    "wasi:sockets/udp@0.2.0",
    "wasi:sockets/ip-name-lookup@0.2.0",
    "sandmill:entry/host@0.2.0",
    "sandmill:entry/models@0.2.0",
    "wasi:nn/tensor@0.2.0-rc-2024-10-28",
    "wasi:nn/graph@0.2.0-rc-2024-10-28",
    "wasi:nn/inference@0.2.0-rc-2024-10-28",
    "wasi:nn/errors@0.2.0-rc-2024-10-28",
];

#[test]
fn granted_interfaces_may_be_imported() {
    run(&instances(&GRANTED)).exits_with(0);
}

#[test]
fn unknown_interfaces_are_refused_by_name() {
    let unknown = [
        "wasi:cli/enviroment@0.2.0",
        "wasi:cli/run@0.2.0",
        "wasi:clocks/monotonic-clock@0.3.0",
        "wasi:http/outgoing-handler@0.2.0",
        "wasi:keyvalue/store@0.2.0",
        "wasi:nn/graph@0.2.0-rc-2024-08-19",
        "wasi:sockets/tls@0.2.0",
        "sandmill:entry/host@0.3.0",
        "sandmill:entry/power@0.2.0",
    ];
    assert_snapshot!(refused(&instances(&unknown)), @"
    error: [DIR]/entry.wasm: the entry script imports interfaces that are not granted:
      wasi:cli/enviroment@0.2.0: Sandmill has no such interface of WASI 0.2 (the nearest is wasi:cli/environment): update or change the toolchain, or leave out the library that needs it
      wasi:cli/run@0.2.0: Sandmill has no such interface of WASI 0.2: update or change the toolchain, or leave out the library that needs it
      wasi:clocks/monotonic-clock@0.3.0: it is WASI 0.3.0, and this Sandmill grants WASI 0.2: build for wasm32-wasip2, or with a toolchain of WASI 0.2. With jco's QuickJS: --backend-qjs-disable-async; with componentize-py: functions without async, as in the contract's wit/; with Rust: --target wasm32-wasip2
      wasi:http/outgoing-handler@0.2.0: it is for HTTP, and entry scripts have no network: pass the data as an input or side input, and leave the HTTP client out of the build
      wasi:keyvalue/store@0.2.0: nothing of that name is granted; an entry script may import sandmill:entry/host and models, wasi:nn and WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out the library that needs it
      wasi:nn/graph@0.2.0-rc-2024-08-19: it is wasi:nn 0.2.0-rc-2024-08-19, and this Sandmill grants only wasi:nn 0.2.0-rc-2024-10-28, as versions of this draft are incompatible: build with bindings of that version, which is in the contract's wit/ folder
      wasi:sockets/tls@0.2.0: Sandmill has no such interface of WASI 0.2: update or change the toolchain, or leave out the library that needs it
      sandmill:entry/host@0.3.0: it is version 0.3.0 of the contract, and this Sandmill supports versions 0.1 and 0.2: build with an SDK of such a version
      sandmill:entry/power@0.2.0: the contract has no such interface to import
    ");
}

/// The interface exists, but the function does not.
#[test]
fn an_unknown_function_is_refused() {
    let message = refused(
        r#"(import "wasi:cli/environment@0.2.0"
            (instance (export "get-secrets" (func (result string)))))"#,
    );
    assert_snapshot!(message, @"error: [DIR]/entry.wasm: the entry script imports something that this Sandmill does not have: component imports instance `wasi:cli/environment@0.2.0`, but a matching implementation was not found in the linker: instance export `get-secrets` has the wrong type: function implementation is missing. Sandmill has WASI 0.2.12, wasi:nn 0.2.0-rc-2024-10-28 and sandmill:entry 0.1.0 and 0.2.0: build with tools for these versions, or use a newer Sandmill");
    let message = refused(
        r#"(import "wasi:random/random@0.2.0"
            (instance (export "get-random-u64" (func (result string)))))"#,
    );
    assert!(message.contains("get-random-u64"), "{message}");
}

/// Runs `sandmill inspect` on components with these imports.
fn inspect(files: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut job = TestJob::empty();
    for (name, imports) in files {
        job = job.file(name, component(imports));
    }
    let mut command = vec!["inspect"];
    command.extend(arguments);
    job.command(&command)
}

/// The output of `inspect` without sizes of components, which depend on the tools.
fn without_sizes(text: &str) -> String {
    let cut = |line: &str| match line.split_once(": a component of ") {
        Some((name, _)) => format!("{name}: a component\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(cut).collect()
}

fn sockets_and_more() -> String {
    instances(&[
        "wasi:cli/environment@0.2.0",
        "wasi:cli/stdout@0.2.0",
        "wasi:filesystem/types@0.2.0",
        "wasi:sockets/tcp@0.2.0",
        "wasi:random/random@0.2.0",
        "wasi:http/types@0.2.0",
        "evil:power/launch@1.0.0",
    ])
}

#[test]
fn inspect_shows_what_a_component_could_access() {
    let ran = inspect(&[("a.wasm", &sockets_and_more())], &["a.wasm"]);
    ran.exits_with(42);
    assert_snapshot!(without_sizes(&ran.redacted_stdout()), @r"
    a.wasm: a component
    sha256:[SHA256]
    What it could access, judged by its imports:
      files: only those of the job: inputs, side inputs and source to read; output and log folders to write
        wasi:filesystem/types@0.2.0
      network: none: every use of a socket and every DNS look-up is denied
        wasi:sockets/tcp@0.2.0
      random numbers: unpredictable; in a deterministic job, derived from the mini-batch
        wasi:random/random@0.2.0
      environment: the job's arguments and variables, not those of the machine
        wasi:cli/environment@0.2.0
      standard streams: an empty input; what it prints goes to its log files
        wasi:cli/stdout@0.2.0
    Refused imports; a job with one of them does not start:
      HTTP: wasi:http/types@0.2.0: it is for HTTP, and entry scripts have no network: pass the data as an input or side input, and leave the HTTP client out of the build
      unknown: evil:power/launch@1.0.0: nothing of that name is granted; an entry script may import sandmill:entry/host and models, wasi:nn and WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out the library that needs it
    Exports:
      run
    Memory: 1 memory of 65536 bytes at the start, 1 table of 3 elements; `limits.memory` limits all of them together
    Made with, according to the file itself:
      language Rust 1.2.3
      processed-by tool\u{1b}[31m 4
    ");
    let ran = inspect(&[("a.wasm", "")], &["a.wasm"]);
    ran.exits_with(0);
    assert!(ran.stdout.contains("by its imports:\n  nothing\n"), "{ran}");
}

#[test]
fn inspect_shows_what_changed() {
    let before = instances(&["wasi:cli/stdout@0.2.0", "wasi:filesystem/types@0.2.0"]);
    let files = [("old.wasm", before.as_str()), ("new.wasm", &sockets_and_more())];
    let ran = inspect(&files, &["new.wasm", "--diff", "old.wasm"]);
    ran.exits_with(42);
    assert_snapshot!(ran.redacted_stdout(), @"
    from old.wasm, sha256:[SHA256]
    to   new.wasm, sha256:[SHA256]
    What it could access:
      + network: none: every use of a socket and every DNS look-up is denied
      + random numbers: unpredictable; in a deterministic job, derived from the mini-batch
      + environment: the job's arguments and variables, not those of the machine
    Imports:
      + wasi:cli/environment@0.2.0
      + wasi:sockets/tcp@0.2.0
      + wasi:random/random@0.2.0
    Imports that are refused:
      + wasi:http/types@0.2.0
      + evil:power/launch@1.0.0
    ");
    let same = inspect(&files, &["new.wasm", "--diff", "new.wasm"]);
    assert!(same.stdout.ends_with("No difference in imports, exports, memory and tools.\n"));
}

#[test]
fn inspect_prints_json() {
    let ran = inspect(&[("a.wasm", &sockets_and_more())], &["a.wasm", "--json"]);
    ran.exits_with(42);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["refused"], true);
    assert_eq!(json["description"]["kind"], "component");
    assert_eq!(json["description"]["imports"][3]["power"], "network");
    assert_eq!(json["description"]["imports"][3]["refused"], serde_json::Value::Null);
    assert_eq!(json["description"]["memories"][0]["minimum_bytes"], 65536);
    assert_eq!(json["description"]["memories"][0]["maximum_bytes"], 9 * 65536);
    assert_eq!(json["description"]["tables"][0]["minimum"], 3);
    let files = [("old.wasm", ""), ("new.wasm", &sockets_and_more())];
    let ran = inspect(&files, &["new.wasm", "--diff", "old.wasm", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let added = json["changes"]["imports"]["added"].as_array().unwrap();
    assert!(added.contains(&"wasi:sockets/tcp@0.2.0".into()), "{json}");
    assert_eq!(json["changes"]["imports"]["removed"], serde_json::json!([]));
}

#[test]
fn inspect_refuses_files_that_are_not_components() {
    let refusal = |name: &str, content: &[u8]| {
        let ran = TestJob::empty().file("a.wasm", content).command(&["inspect", name]);
        ran.exits_with(2);
        ran.messages()
    };
    let mut damaged = component("");
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0xff);
    let damaged = refusal("a.wasm", &damaged);
    assert!(damaged.starts_with("error: a.wasm: the file is a damaged component: "), "{damaged}");
    let messages = [refusal("none.wasm", b""), refusal("a.wasm", b"text"), refusal(".", b"")];
    assert_snapshot!(messages.join("\n"), @"
    error: none.wasm: it cannot be read: No such file or directory (os error 2)
    error: a.wasm: the file is not a WebAssembly component: it is text. Name a component, or the folder of a guest crate to build
    error: .: it is not a regular file but a folder; name a component (.wasm) or a core module
    ");
}
