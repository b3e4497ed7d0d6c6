//! Small entry scripts for tests, written as core modules in text form.

use wit_component::StringEncoding;
use wit_parser::Resolve;

/// The common part of every test module: a memory, and a bump allocator that never frees. Like the
/// allocators of some languages, it does not support reallocation.
const COMMON: &str = r#"
    (memory (export "memory") 2)
    (global $heap (mut i32) (i32.const 65536))
    (func $alloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (if (local.get 0) (then unreachable))
      (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
      (local.set $at (global.get $heap))
      (global.set $heap (i32.add (local.get $at) (local.get 3)))
      (block $fits
        (loop $more
          (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
          (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))
          unreachable))
      (local.get $at))
"#;

/// The head of `run`: its parameters are the mini-batch (kind, pointer, length) and the context.
pub const RUN: &str = r#"(func (export "NAME#run")
    (param $kind i32) (param $ptr i32) (param $len i32)
    (param $id i64) (param $dataset i32) (param $dataset_len i32) (param $attempt i32)
    (param $keys i32) (param $keys_len i32) (result i32)"#;

/// A module whose `run` returns no rows.
pub const RUN_EMPTY: &str = "RUN (i32.const 0))";

/// A core module with metadata for a world of the contract. In `body`, `RUN` stands for the head of
/// `run`, and `NAME` for the name of the exported interface.
pub fn module(world: &str, body: &str) -> Vec<u8> {
    let name = if world == "run-only" {
        "sandmill:entry/entry-run@0.2.0"
    } else {
        "sandmill:entry/entry@0.2.0"
    };
    let body = body.replace("RUN", RUN).replace("NAME", name);
    // Imports come before definitions in a module.
    let (imports, definitions): (Vec<_>, Vec<_>) =
        body.split('\n').partition(|line| line.trim_start().starts_with("(import"));
    let text = format!("(module {}\n{COMMON}\n{})", imports.join("\n"), definitions.join("\n"));
    let mut module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut resolve = Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
    let (package, _) = resolve.push_path(wit).expect("the contract parses");
    let world = resolve.select_world(&[package], Some(world)).expect("known world");
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("metadata fits");
    module
}

/// [`module`], as a component.
pub fn component(world: &str, body: &str) -> Vec<u8> {
    super::componentize(module(world, body)).unwrap_or_else(|error| panic!("{error}"))
}
