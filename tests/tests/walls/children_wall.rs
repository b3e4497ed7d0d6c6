//! Entry scripts that try to harm the process that parses them. Sandmill parses entry scripts in child
//! processes with limits, so the command ends with a clear message and leaves no process and no file.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use rustix::process::{Pid, Signal, kill_process};
use sandmill_tests::{Ran, Running, TestJob, guest};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

// Section ids of core modules.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const MEMORIES: u8 = 5;
const CODE: u8 = 10;
const DATA: u8 = 11;
// Section ids of components.
const CORE_MODULE: u8 = 1;
const EXPORTS: u8 = 11;
// Opcodes.
const END: u8 = 0x0b;
const DROP: u8 = 0x1a;
const LOCAL_GET: u8 = 0x20;
const LOCAL_SET: u8 = 0x21;
const I32_CONST: u8 = 0x41;
const I32_ADD: u8 = 0x6a;

/// Appends a number in the variable-length encoding LEB128.
fn leb128(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn section(id: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(id);
    leb128(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// A component that exports this core module as `m`. Its names are valid, so Sandmill notices the
/// missing `run` only after compiling.
fn component_of(module: &[u8]) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    section(CORE_MODULE, module, &mut bytes);
    // One export: the name `m`, of the kind core module, with index 0 and its own type.
    section(EXPORTS, &[1, 0, 1, b'm', 0, 0x11, 0, 0], &mut bytes);
    bytes
}

/// A module of functions with these bodies. Each function has an i32 parameter and an i32 result.
/// `add_sections` appends more sections.
fn module_of(bodies: &[Vec<u8>], add_sections: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    // One type: a function from i32 to i32.
    section(TYPES, &[1, 0x60, 1, 0x7f, 1, 0x7f], &mut bytes);
    let mut types = Vec::new();
    leb128(bodies.len() as u64, &mut types);
    types.resize(types.len() + bodies.len(), 0);
    section(FUNCTIONS, &types, &mut bytes);
    // One memory of 2000 pages.
    section(MEMORIES, &[1, 0, 0xd0, 0x0f], &mut bytes);
    let mut code = Vec::new();
    leb128(bodies.len() as u64, &mut code);
    for body in bodies {
        // The length, no locals, the body, the end.
        leb128(body.len() as u64 + 2, &mut code);
        code.push(0);
        code.extend_from_slice(body);
        code.push(END);
    }
    section(CODE, &code, &mut bytes);
    add_sections(&mut bytes);
    bytes
}

/// A function body that adds 3 to its parameter `count` times. Each addition has 7 bytes.
fn additions(count: usize) -> Vec<u8> {
    let mut body = [LOCAL_GET, 0, I32_CONST, 3, I32_ADD, LOCAL_SET, 0].repeat(count);
    body.extend([LOCAL_GET, 0]);
    body
}

/// A module with a data segment of this size.
fn with_data(bytes: usize) -> Vec<u8> {
    module_of(&[vec![LOCAL_GET, 0]], |module| {
        // One segment, which starts at address 0 of memory 0.
        let mut data = vec![1, 0, I32_CONST, 0, END];
        leb128(bytes as u64, &mut data);
        data.resize(data.len() + bytes, 7);
        section(DATA, &data, module);
    })
}

/// A component that exports a function `run` with a parameter of this type. `types` defines the types that it
/// needs.
fn run_of(types: &str, parameter: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(component {types}
            (core module $m (func (export "run") (param i32) (result i32) local.get 0))
            (core instance $i (instantiate $m))
            (func (export "run") (param "p" {parameter}) (result u32)
                (canon lift (core func $i "run"))))"#
    ))
    .unwrap()
}

/// Runs each command that parses an entry script on this script. Checks that it refuses the script with the
/// expected message, ends soon, and leaves no process and no file.
fn assert_all_refuse(script: &[u8], expected: &str) {
    let job = || {
        TestJob::empty()
            .file("script.wasm", script)
            .file("input/a.txt", "a")
            .yaml("name: test\nentry_script: script.wasm\ninputs: {texts: input}")
            .env("SANDMILL_CACHE_DIR", "cache")
    };
    let run = job().run(&[]);
    run.exits_with(2).says(expected);
    assert!(!run.has("job"), "{run}");
    assert_ends_well(&run);
    let check = job().command(&["check", "script.wasm"]);
    let words = format!("{}{}", check.stdout, check.stderr);
    assert!([2, 42].contains(&check.code) && words.contains(expected), "{check}");
    assert_ends_well(&check);
}

fn assert_ends_well(ran: &Ran) {
    assert!(ran.took < Duration::from_secs(120), "{ran}");
    assert!(ran.left_over.is_empty(), "{ran}");
    assert!(ran.stderr.len() < 100_000, "an endless message");
    assert_eq!(entries(&ran.dir().join("cache"), "tmp-"), 0, "{ran}");
}

fn entries(folder: &Path, prefix: &str) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).count()
}

#[test]
fn a_function_of_seven_megabytes() {
    // Pushes a number and drops it, again and again.
    let mut body = [LOCAL_GET, 0, DROP].repeat(7_000_000 / 3);
    body.extend([LOCAL_GET, 0]);
    assert_all_refuse(&component_of(&module_of(&[body], |_| {})), "does not export run");
    // A body that takes longer to compile.
    let sum = additions(50_000);
    assert_all_refuse(&component_of(&module_of(&[sum], |_| {})), "does not export run");
    // A body that is larger than a function may be.
    let larger = component_of(&module_of(&[additions(1_200_000)], |_| {}));
    assert_all_refuse(&larger, "function body size");
}

#[test]
fn many_functions() {
    let module = module_of(&vec![additions(3); 20_000], |_| {});
    assert_all_refuse(&component_of(&module), "does not export run");
}

#[test]
fn a_huge_data_section() {
    assert_all_refuse(&component_of(&with_data(40 << 20)), "does not export run");
}

#[test]
fn types_that_are_nested_deeply() {
    let deep: String = (0..5000).map(|n| format!("(type $t{} (list $t{n}))", n + 1)).collect();
    let run = run_of(&format!("(type $t0 (list u8)) {deep}"), "$t5000");
    assert_all_refuse(&run, "not a valid component");
    // Each type is twice as large as the one before.
    let wide: String = (0..60).map(|n| format!("(type $t{} (tuple $t{n} $t{n}))", n + 1)).collect();
    let run = run_of(&format!("(type $t0 (tuple u8 u8)) {wide}"), "$t60");
    assert_all_refuse(&run, "not a valid component");
}

/// The types are valid, but too long to print.
#[test]
fn a_type_too_long_to_print_is_refused() {
    let wide: String =
        (0..11).map(|n| format!("(type $t{} (tuple $t{n} $t{n} $t{n}))", n + 1)).collect();
    let component = wat::parse_str(format!(
        r#"(component (type $t0 (tuple u8 u8)) {wide}
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export "run") (param i32) (result i32) local.get 0))
            (core instance $i (instantiate $m))
            (func (export "run") (param "p" $t11) (result u32)
                (canon lift (core func $i "run") (memory (core memory $i "memory"))
                    (realloc (core func $i "realloc")))))"#
    ))
    .unwrap();
    assert_all_refuse(&component, "run has the wrong type");
}

#[test]
fn endless_names() {
    let many: String = (0..60_000)
        .map(|n| format!("(export \"{}{n}\" (core module $m))", "long-name-".repeat(9) + "x"))
        .collect();
    let component = wat::parse_str(format!("(component (core module $m) {many})")).unwrap();
    let ran = TestJob::empty().file("many.wasm", component).command(&["check", "many.wasm"]);
    ran.exits_with(2).says("the names of its imports and exports take");
    assert_ends_well(&ran);
}

#[test]
fn build_parses_nothing_in_its_own_process() {
    for (module, expected) in [
        (module_of(&[additions(1_200_000)], |_| {}), "without WIT metadata"),
        (with_data(40 << 20), "without WIT metadata"),
        (b"\0asm\x01\0\0\0\xff\xff\xff".to_vec(), "damaged WebAssembly"),
        (component_of(&with_data(1 << 20)), ""),
    ] {
        let ran = TestJob::empty().file("script.wasm", module).command(&["build", "script.wasm"]);
        if expected.is_empty() {
            // `build` reads only the names in a component.
            ran.exits_with(0);
        } else {
            ran.exits_with(2).says(expected);
        }
        assert_ends_well(&ran);
        let files: Vec<_> = fs::read_dir(ran.dir()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files, [ran.dir().join("script.wasm")], "{ran}");
    }
}

/// An entry script that takes long to compile.
fn slow() -> Vec<u8> {
    let mut component = component_of(&module_of(&vec![additions(100_000); 30], |_| {}));
    // A custom section (id 0) with the process id gives each test process a component with its own digest. So
    // the test does not confuse its compiler with those of concurrent tests.
    let id = std::process::id().to_le_bytes();
    component.extend([&[0, 6, 1, b'p'][..], &id].concat());
    component
}

/// The processes that compile the component with this digest.
fn compilers_of(digest: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&command).contains(digest).then_some(id)
    });
    processes.collect()
}

/// The SHA-256 of a file, as in the name of its cache entry.
fn digest_of(job: TestJob, script: &str) -> (String, TestJob) {
    let ran = job.command(&["build", script]);
    ran.exits_with(0);
    let line = ran.stderr.lines().find_map(|line| line.strip_prefix("sha256:")).unwrap();
    (line.split(' ').next().unwrap().to_owned(), ran.into_job())
}

/// Whether a process has entered its wall. Then it parses the entry script, or is about to parse it.
fn is_walled(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let has = |line: &str| status.lines().any(|found| found == line);
    // The machine may lack the seccomp filter, but `no_new_privs` is always set.
    has("Seccomp:\t2") || has("NoNewPrivs:\t1")
}

fn until_gone(digest: &str) {
    let begun = Instant::now();
    while !compilers_of(digest).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the compiler outlives its leader");
        thread::sleep(Duration::from_millis(10));
    }
}

fn slow_job() -> (String, TestJob) {
    let job = TestJob::empty()
        .file("slow.wasm", slow())
        .file("input/a.txt", "a")
        .yaml("name: test\nentry_script: slow.wasm\ninputs: {texts: input}")
        .env("SANDMILL_CACHE_DIR", "cache");
    digest_of(job, "slow.wasm")
}

#[test]
fn a_compiler_ends_with_its_command_and_the_next_cleans_up() {
    let (digest, job) = slow_job();
    let mut running = job.spawn(&["run", "job.yaml", "--job-dir", "job"]);
    running.until("the compiler runs", |_| !compilers_of(&digest).is_empty());
    running.kill_leader();
    let ran = running.wait();
    until_gone(&digest);
    let cache = ran.dir().join("cache");
    assert_eq!((entries(&cache, "tmp-"), entries(&cache, "")), (1, 1), "an unfinished file");
    let good = guest("echo_files").display().to_string();
    let ran = ran.into_job().command(&["check", &good]);
    ran.exits_with(0);
    assert_eq!((entries(&cache, "tmp-"), entries(&cache, "")), (0, 1), "{ran}");
}

#[test]
fn ctrl_c_ends_a_compiler() {
    let (digest, job) = slow_job();
    let mut running = job.spawn(&["run", "job.yaml", "--job-dir", "job"]);
    running.until("the compiler runs", |_| !compilers_of(&digest).is_empty());
    running.interrupt();
    let ran = running.wait();
    ran.exits_with(130).says("the job was not started");
    until_gone(&digest);
    assert_ends_well(&ran);
}

/// If a limit or an operator ends the compiler, the message says so.
#[test]
fn the_death_of_a_compiler_is_reported() {
    for (signal, words) in [
        (
            Signal::KILL,
            "the compiler was killed, probably because the machine has too little memory",
        ),
        (Signal::XCPU, "seconds of processor time"),
        (Signal::SYS, "system-call filter"),
    ] {
        let (digest, job) = slow_job();
        let mut running = job.spawn(&["run", "job.yaml", "--job-dir", "job"]);
        let mut compiler = None;
        running.until("the compiler runs", |_| {
            // Stop the compiler as soon as it appears, so that it cannot end unnoticed. Let it continue if it
            // has not entered its wall.
            compiler = compiler.or_else(|| compilers_of(&digest).first().copied());
            let Some(id) = compiler else { return false };
            let process = Pid::from_raw(id.cast_signed()).unwrap();
            kill_process(process, Signal::STOP).unwrap();
            let has_entered = is_walled(id);
            if !has_entered {
                kill_process(process, Signal::CONT).unwrap();
            }
            has_entered
        });
        let compiler = Pid::from_raw(compiler.unwrap().cast_signed()).unwrap();
        kill_process(compiler, signal).unwrap();
        kill_process(compiler, Signal::CONT).unwrap_or_default();
        let ran = running.wait();
        ran.exits_with(2).says(words);
        assert_ends_well(&ran);
    }
}

/// Several commands that compile the same component concurrently all succeed, and one cache entry stays.
#[test]
fn commands_that_compile_at_once_share_one_cache() {
    let folder = TestJob::empty();
    let cache = folder.path("cache").display().to_string();
    let good = guest("echo_files").display().to_string();
    let start = || TestJob::empty().env("SANDMILL_CACHE_DIR", &cache).spawn(&["check", &good]);
    let running: Vec<_> = (0..4).map(|_| start()).collect();
    for command in running {
        command.wait().exits_with(0);
    }
    assert_eq!((entries(Path::new(&cache), "tmp-"), entries(Path::new(&cache), "")), (0, 1));
}

/// If a cache entry has changed, or another user might have written it, the component is compiled again.
#[test]
fn a_poisoned_entry_is_not_used() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let good = guest("echo_files").display().to_string();
    let check = |job: TestJob| {
        let ran = job.env("SANDMILL_CACHE_DIR", "cache").command(&["check", &good]);
        ran.exits_with(0);
        ran
    };
    let mut ran = check(TestJob::empty());
    let mut cached = fs::read_dir(ran.dir().join("cache")).unwrap();
    let path = cached.next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    type Poison<'a> = (&'a str, &'a dyn Fn(&Path));
    let poisons: [Poison<'_>; 5] = [
        ("half written", &|path| fs::write(path, &whole[..whole.len() / 2]).unwrap()),
        ("a changed byte", &|path| {
            let mut bytes = whole.clone();
            bytes[whole.len() / 2] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("open to others", &|path| {
            fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        }),
        ("a link", &|path| {
            let elsewhere = path.with_file_name("elsewhere");
            fs::rename(path, &elsewhere).unwrap();
            symlink("elsewhere", path).unwrap();
        }),
        ("a fifo", &|path| {
            fs::remove_file(path).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            )
            .unwrap();
        }),
    ];
    for (case, poison) in poisons {
        poison(&path);
        ran = check(ran.into_job());
        assert!(ran.stderr.contains("compiling "), "{case}: {ran}");
        assert_eq!(fs::read(&path).unwrap().len(), whole.len(), "{case}");
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.is_file() && metadata.permissions().mode() & 0o077 == 0, "{case}");
        ran = check(ran.into_job());
        assert!(!ran.stderr.contains("compiling "), "{case}: the new entry is not used\n{ran}");
    }
}

/// A job whose planner spends some time on grouping rows.
fn grouping() -> TestJob {
    let rows: String =
        (0..400_000).map(|row| format!("{},{row} and more text\n", row % 50)).collect();
    TestJob::new(&guest("returns_keys")).file("in/a.csv", format!("key,x\n{rows}")).yaml(
        "inputs: {rows: {path: in, format: csv}}\npartition_keys: [key]\n\
         process_count_per_node: 2",
    )
}

/// The processes with this name, among the leader's children and grandchildren. The helpers of a planner are
/// grandchildren.
fn processes_named(running: &Running, name: &str) -> Vec<Pid> {
    let mut found = Vec::new();
    for (id, command) in running.children() {
        if command.ends_with(name) {
            found.push(id);
        }
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&command).contains(name) {
                found.push(child.parse().unwrap());
            }
        }
    }
    found.into_iter().filter_map(|id: u32| Pid::from_raw(id.cast_signed())).collect()
}

/// Sends a signal to all processes with this name, as soon as there are `count`.
fn send(running: &mut Running, name: &str, count: usize, signal: Signal) {
    running
        .until("the processes are there", |running| processes_named(running, name).len() >= count);
    for id in processes_named(running, name) {
        kill_process(id, signal).unwrap();
    }
}

/// Sends a signal to the planner, but only after its helpers have their own names. Before that, a helper may
/// have the planner's name, and would get the signal too.
fn send_planner(running: &mut Running, signal: Signal) {
    running.until("it plans", |running| processes_named(running, "shuffle-worker").len() >= 4);
    send(running, "plan-worker", 1, signal);
}

#[test]
fn the_death_of_a_planner_is_reported() {
    for (signal, words) in [
        (Signal::SYS, "the planner process was ended by the system-call filter"),
        (Signal::XCPU, "the planner process was ended by its limit of processor time"),
        (Signal::XFSZ, "the planner process was ended because it wrote a larger file than allowed"),
        (Signal::KILL, "the planner process was killed"),
    ] {
        let mut running = grouping().start(&[]);
        send_planner(&mut running, signal);
        let first = processes_named(&running, "plan-worker");
        let another = |running: &Running| {
            processes_named(running, "plan-worker").into_iter().find(|id| !first.contains(id))
        };
        // The second planner is killed before or while it reads the only file.
        running.until("another plans", |running| another(running).is_some());
        another(&running).into_iter().for_each(|id| kill_process(id, signal).unwrap());
        running.wait().says(words);
    }
}

#[test]
fn the_death_of_a_planners_helpers_is_reported() {
    for (signal, words) in [
        (Signal::SYS, "was ended by the system-call filter"),
        (Signal::KILL, "was killed (signal 9"),
    ] {
        let mut running = grouping().spawn(&["plan", "job.yaml"]);
        send(&mut running, "shuffle-worker", 4, signal);
        let ran = running.wait();
        ran.exits_with(2).says("rows cannot be grouped by key").says(words);
    }
}

#[test]
fn a_silent_planner_is_ended() {
    let job = grouping().yaml("first_task_creation_timeout: 1\nprogress_update_timeout: 1");
    let mut running = job.spawn(&["plan", "job.yaml"]);
    send_planner(&mut running, Signal::STOP);
    let ran = running.wait();
    ran.exits_with(2).says("the planner sent nothing for 1 s");
}
