//! Guests in WebAssembly's text format, which can do what Rust does not allow.

use crate::root;
use std::fs;
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Replaces `COMMON` in a guest's text: a memory, and an allocator that never frees.
const COMMON: &str = r#"
    (memory (export "memory") 2)
    (global $free (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (global.set $free (i32.add (local.get $at) (local.get 3)))
      (block $fits
        (loop $more
          (br_if $fits (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
          (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
          unreachable))
      (local.get $at))
"#;

/// Replaces `RUN` in a guest's text: the head of `run`, whose parameters are a mini-batch and its context.
const RUN: &str = r#"(export "sandmill:entry/entry-run@0.2.0#run")
    (param $kind i32) (param $files i32) (param $count i32)
    (param $id i64) (param $dataset i32) (param $dataset_len i32) (param $attempt i32)
    (param $keys i32) (param $keys_len i32) (result i32)"#;

/// Replaces `GOOD` in a guest's text: a function that returns one row, `good NN`, with the mini-batch's id as
/// `NN`. The function uses the memory from 1024 to 1100.
const GOOD: &str = r#"
    (data (i32.const 1024) "good 00")
    ;; ok, rows, and the list of one text.
    (data (i32.const 1040) "\00\00\00\00\00\00\00\00\20\04\00\00\01\00\00\00")
    (data (i32.const 1056) "\00\04\00\00\07\00\00\00")
    (func $good (param $id i64) (result i32)
      (i32.store8 (i32.const 1029)
        (i32.add (i32.const 48) (i32.wrap_i64 (i64.div_u (local.get $id) (i64.const 10)))))
      (i32.store8 (i32.const 1030)
        (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $id) (i64.const 10)))))
      (i32.const 1040))
"#;

/// The row that `GOOD` returns.
pub fn good_row(id: usize) -> String {
    format!("good {id:02}")
}

/// The compiled guest of `tests/guests/hostile/NAME.wat`.
pub fn wat_guest(name: &str) -> Vec<u8> {
    let path = root().join(format!("tests/guests/hostile/{name}.wat"));
    wat_module(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// Compiles a guest from its text, after replacing `COMMON`, `RUN` and `GOOD`. A module gets the metadata of
/// the world `run-only`. A component is left unchanged.
pub fn wat_module(text: &str) -> Vec<u8> {
    let text = [("COMMON", COMMON), ("RUN", RUN), ("GOOD", GOOD)]
        .iter()
        .fold(text.to_owned(), |text, (word, replacement)| text.replace(word, replacement));
    let mut bytes = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"));
    if !text.trim_start().starts_with("(component") {
        add_world(&mut bytes, "run-only");
    }
    bytes
}

/// Adds the metadata of a world of the contract to a module. The module need not conform to that world.
pub fn add_world(module: &mut Vec<u8>, world: &str) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(root().join("wit")).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8).unwrap();
}

/// Makes a component or module for version 0.1 of the contract from one for version 0.2.
pub fn for_version_0_1(component: &[u8]) -> Vec<u8> {
    // The names have the same length in both versions, so no other byte changes.
    let (version, part) = (b"@0.2.0", b"sandmill:entry/");
    let mut bytes = component.to_vec();
    for at in 0..bytes.len().saturating_sub(part.len()) {
        if !bytes[at..].starts_with(part) {
            continue;
        }
        let name = bytes[at..].iter().take_while(|byte| **byte != b'@').count();
        if bytes[at + name..].starts_with(version) {
            bytes[at + name..][..version.len()].copy_from_slice(b"@0.1.0");
        }
    }
    assert_ne!(bytes, component);
    bytes
}
