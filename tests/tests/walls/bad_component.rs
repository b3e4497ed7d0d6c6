//! Invalid entry scripts: nothing is run, and the message says what the file really is.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use insta::assert_snapshot;
use sandmill_tests::{TestJob, guest};
use std::fs;

/// The message about an entry script with this name and content.
fn refused(name: &str, content: &[u8]) -> String {
    let ran = TestJob::empty()
        .yaml(&format!("name: test\nentry_script: {name}\ninputs: {{ texts: input }}"))
        .file(name, content)
        .file("input/a.txt", "a")
        .run(&[]);
    ran.exits_with(2);
    assert!(!ran.has("job"), "nothing is left\n{ran}");
    ran.messages()
}

#[test]
fn files_that_are_not_components_are_refused() {
    let good = fs::read(guest("echo_files")).unwrap();
    let messages = [
        refused("empty.wasm", b""),
        refused("text.wasm", b"just a text\n"),
        refused("native.wasm", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0"),
        refused("noise.wasm", &[0xf7; 4000]),
        refused("cut.wasm", &good[..good.len() / 2]),
        refused("head.wasm", &good[..8]),
        refused("module.wasm", b"\0asm\x01\0\0\0"),
        refused("script.wasm", b"def run(mini_batch):\n    return []\n"),
    ];
    assert_snapshot!(messages.join("\n"), @"
    error: [DIR]/empty.wasm: the file is not a WebAssembly component: it is empty. Did the build that should write it fail?
    error: [DIR]/text.wasm: the file is not a WebAssembly component: it is text. Name a component, or the folder of a guest crate to build
    error: [DIR]/native.wasm: the file is not a WebAssembly component: it is a native program or library (ELF). Name a component, or the folder of a guest crate to build
    error: [DIR]/noise.wasm: the file is not a WebAssembly component: it begins with the bytes f7 f7 f7 f7, not with 00 61 73 6d. Name a component, or the folder of a guest crate to build
    error: [DIR]/cut.wasm: the file is a damaged component: unexpected end-of-file (at offset [ADDRESS])
    error: [DIR]/head.wasm: the component exports nothing. An entry script exports the interface sandmill:entry/entry@0.2.0 (init, run, shutdown) or sandmill:entry/entry-run@0.2.0 (run only); sandmill-guest makes one
    error: [DIR]/module.wasm: the file is a core module without WIT metadata, so nothing says which functions it exports to Sandmill: build it with sandmill-guest or wit-bindgen, or embed the metadata with `wasm-tools component embed wit/ --world entry-script`
    error: [DIR]/script.wasm: the file is not a WebAssembly component: it is Python source. Rename it so that its name ends in .py
    ");
}

#[test]
fn a_damaged_component_is_refused() {
    let mut bytes = fs::read(guest("echo_files")).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0xff;
    }
    let messages = refused("damaged.wasm", &bytes);
    // Where the damage is found depends on the compiler that built the component.
    assert!(messages.starts_with("error: [DIR]/damaged.wasm: "), "{messages}");
    assert!(
        messages.contains("not a valid component") || messages.contains("damaged component"),
        "{messages}"
    );
}

#[test]
fn paths_that_are_not_files_are_refused() {
    let job = |script: &str| {
        let job = TestJob::empty().file("folder/a.txt", "a").file("input/a.txt", "a");
        let job = job.yaml(&format!("name: test\nentry_script: {script}\ninputs: {{ t: input }}"));
        let ran = job.run(&[]);
        ran.exits_with(2);
        ran.messages()
    };
    let messages = [job("missing.wasm"), job("folder"), job("/dev/zero"), job("''")];
    assert_snapshot!(messages.join("\n"), @"
    error: job.yaml:2: entry_script: there is no [DIR]/missing.wasm; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    error: job.yaml:2: entry_script: [DIR]/folder is a folder with no Cargo.toml and no sources in C; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    error: the entry script /dev/zero cannot be used: it is not a regular file but a device; name a component (.wasm), a core module (.wasm) or the folder of a guest crate or of C sources
    error: job.yaml:2: entry_script: found an empty text; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    ");
}

/// Rule E1 in docs/parallel-run-step.md.
#[test]
fn components_without_the_contract_are_refused() {
    let run = |name: &str| {
        let job = TestJob::new(&guest(name)).yaml("inputs: { t: input }").file("input/a", "a");
        let ran = job.run(&[]);
        ran.exits_with(2);
        assert!(!ran.has("job"), "nothing is left\n{ran}");
        ran.messages()
    };
    let messages = [run("not_entry"), run("unknown_import")].join("\n");
    assert_snapshot!(messages.replace(&folder_of_guests(), "[GUESTS]"), @"
    error: [GUESTS]/not_entry.wasm: the component does not export run (it exports greet). An entry script exports the interface sandmill:entry/entry@0.2.0 (init, run, shutdown) or sandmill:entry/entry-run@0.2.0 (run only); sandmill-guest makes one
    error: [GUESTS]/unknown_import.wasm: the entry script imports interfaces that are not granted:
      evil:power/launch@1.0.0: nothing of that name is granted; an entry script may import sandmill:entry/host and models, wasi:nn and WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out the library that needs it
    ");
}

#[test]
fn a_component_other_than_the_pinned_one_is_refused() {
    let pin = "0".repeat(64);
    let ran = TestJob::new(&guest("echo_files"))
        .yaml(&format!("inputs: {{ t: input }}\nentry_script_digest: sha256:{pin}"))
        .file("input/a", "a")
        .run(&[]);
    ran.exits_with(2).says(&pin);
    assert!(!ran.has("job"), "{ran}");
    assert_snapshot!(ran.messages().replace(&folder_of_guests(), "[GUESTS]"), @"error: [GUESTS]/echo_files.wasm has the SHA-256 [SHA256], but entry_script_digest is [SHA256]: it is not the component that this job was made for; put the right file there, or change entry_script_digest");
}

fn folder_of_guests() -> String {
    let folder = guest("echo_files").parent().unwrap().display().to_string();
    folder
        .replace(&sandmill_tests::root().display().to_string(), "[REPO]")
        .replace("wasm32-wasip1", "wasm32-wasip2")
}
