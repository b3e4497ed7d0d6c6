//! Generates the module between an interpreter and the contract, in text form (WAT). The module passes
//! addresses in the interpreter's memory. The interpreter's side (`python/science/abi.py`) writes and reads
//! the data at these addresses.
//!
//! The interpreter calls the glue with bytes: the number of a request, then numbers or bytes. The glue
//! returns bytes.

use super::world::HostFunction;
use std::fmt::Write as _;

/// The function `call`, with which the interpreter sends requests. Requests with the number
/// [`FIRST_HOST_FUNCTION`] or a higher one call a host function, with its parameters.
const REQUESTS: &str = r#"
  ;; Answers with a 32-bit number.
  (func $number (param $value i32) (param $address i32) (param $length i32)
    (local $at i32)
    (local.set $at (call $alloc (i32.const 4)))
    (i32.store (local.get $at) (local.get $value))
    (i32.store (local.get $address) (local.get $at))
    (i32.store (local.get $length) (i32.const 4)))
  (func $copy (param $from i32) (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (call $alloc (local.get $bytes)))
    (memory.copy (local.get $at) (local.get $from) (local.get $bytes))
    (local.get $at))
  (func (export "call") (param $from i32) (param $bytes i32) (param $address i32) (param $length i32) (result i32)
    (local $request i32)
    (local $first i32)
    (local $second i32)
    (local.set $request (i32.load (local.get $from)))
    (if (i32.ge_u (local.get $bytes) (i32.const 8))
      (then (local.set $first (i32.load offset=4 (local.get $from)))))
    (if (i32.ge_u (local.get $bytes) (i32.const 12))
      (then (local.set $second (i32.load offset=8 (local.get $from)))))
    ;; 0: answers with a copy of the bytes at an address.
    (if (i32.eqz (local.get $request)) (then
      (i32.store (local.get $address) (call $copy (local.get $first) (local.get $second)))
      (i32.store (local.get $length) (local.get $second))
      (return (i32.const 0))))
    ;; 1: answers with the bytes at an address. The interpreter then frees them.
    (if (i32.eq (local.get $request) (i32.const 1)) (then
      (i32.store (local.get $address) (local.get $first))
      (i32.store (local.get $length) (local.get $second))
      (return (i32.const 0))))
    ;; 2: copies the bytes that follow, and answers with the address.
    (if (i32.eq (local.get $request) (i32.const 2)) (then
      (call $number
        (call $copy
          (i32.add (local.get $from) (i32.const 4))
          (i32.sub (local.get $bytes) (i32.const 4)))
        (local.get $address)
        (local.get $length))
      (return (i32.const 0))))
    ;; 3: answers with the address of the parameters of `run`.
    (if (i32.eq (local.get $request) (i32.const 3)) (then
      (call $number (global.get $parameters) (local.get $address) (local.get $length))
      (return (i32.const 0))))
    ;; 4: sets the address of the function's results.
    (if (i32.eq (local.get $request) (i32.const 4)) (then
      (global.set $returned (local.get $first))
      (return (i32.const 0))))
"#;

/// The request number of the first host function.
const FIRST_HOST_FUNCTION: usize = 16;

/// The exported functions of a prepared interpreter. `INIT`, `RUN` and `STOP` stand for texts of up to
/// eight bytes.
const EXPORTS: &str = r#"
  ;; Runs a text of up to eight bytes.
  (func $enter (param $text i64) (param $bytes i32) (result i32)
    (local $at i32)
    (global.set $returned (i32.const 0))
    (local.set $at (call $alloc (i32.const 8)))
    (i64.store align=1 (local.get $at) (local.get $text))
    (drop (call $turn (local.get $at) (local.get $bytes)))
    ;; The text ended without results, so the instance must not be used again.
    (if (i32.eqz (global.get $returned)) (then unreachable))
    (global.get $returned))
  (func (export "ENTRY#init") (result i32) (call $enter (i64.const INIT) (i32.const 7)))
  (func (export "ENTRY#run")
    (param $kind i32) (param $data i32) (param $length i32) (param $id i64)
    (param $dataset i32) (param $dataset_length i32) (param $attempt i32) (param $keys i32) (param $keys_length i32)
    (result i32)
    (local $at i32)
    (if (i32.eqz (global.get $parameters)) (then (global.set $parameters (call $alloc (i32.const 40)))))
    (local.set $at (global.get $parameters))
    (i64.store align=1 (local.get $at) (local.get $id))
    (i32.store offset=8 (local.get $at) (local.get $kind))
    (i32.store offset=12 (local.get $at) (local.get $data))
    (i32.store offset=16 (local.get $at) (local.get $length))
    (i32.store offset=20 (local.get $at) (local.get $dataset))
    (i32.store offset=24 (local.get $at) (local.get $dataset_length))
    (i32.store offset=28 (local.get $at) (local.get $attempt))
    (i32.store offset=32 (local.get $at) (local.get $keys))
    (i32.store offset=36 (local.get $at) (local.get $keys_length))
    (call $enter (i64.const RUN) (i32.const 6)))
  (func (export "ENTRY#shutdown") (drop (call $enter (i64.const STOP) (i32.const 7))))
"#;

/// The imports of the glue that prepares an interpreter.
const PREPARING_IMPORTS: &str = r#"
  (import "__main_module__" "wizer.initialize" (func $begin))
  (import "__main_module__" "reset_folders" (func $reset_folders))"#;

/// The exported functions of the glue that prepares an interpreter. `run` returns the whole memory as a
/// table, because the contract passes a table as a list of bytes.
const PREPARING_EXPORTS: &str = r#"
  (func (export "ENTRY#init") (result i32)
    (local $returned i32)
    (call $begin)
    (local.set $returned (call $alloc (i32.const 16)))
    (i32.store8 (local.get $returned) (i32.const 0))
    (local.get $returned))
  (func (export "ENTRY#run")
    (param i32 i32 i32 i64 i32 i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local $returned i32)
    (local.set $at (call $alloc (i32.const BYTES)))
    TEXT
    (if (call $turn (local.get $at) (i32.const LENGTH)) (then unreachable))
    (call $reset_folders)
    (local.set $returned (call $alloc (i32.const 16)))
    (i32.store8 (local.get $returned) (i32.const 0))
    (i32.store8 offset=4 (local.get $returned) (i32.const 2))
    (i32.store offset=8 (local.get $returned) (i32.const 0))
    (i32.store offset=12 (local.get $returned) (i32.mul (memory.size) (i32.const 65536)))
    (local.get $returned))
  (func (export "ENTRY#shutdown"))
"#;

/// The interface of the contract that the component exports.
const ENTRY: &str = "sandmill:entry/entry@0.2.0";

/// The glue of a prepared interpreter. It runs the texts `_init()`, `_run()` and `_stop()`.
pub(super) fn glue(functions: &[HostFunction]) -> String {
    let exports = EXPORTS
        .replace("INIT", &little_endian(b"_init()").to_string())
        .replace("RUN)", &format!("{})", little_endian(b"_run()")))
        .replace("STOP", &little_endian(b"_stop()").to_string());
    module_text("", functions, &exports)
}

/// The glue that prepares an interpreter by running `text`.
pub(super) fn preparing_glue(functions: &[HostFunction], text: &str) -> String {
    let mut stores = String::new();
    for (index, eight) in text.as_bytes().chunks(8).enumerate() {
        let _ = writeln!(
            stores,
            "    (i64.store offset={} align=1 (local.get $at) (i64.const {}))",
            8 * index,
            little_endian(eight)
        );
    }
    let exports = PREPARING_EXPORTS
        .replace("BYTES", &text.len().next_multiple_of(8).to_string())
        .replace("LENGTH", &text.len().to_string())
        .replace("TEXT", &stores);
    module_text(PREPARING_IMPORTS, functions, &exports)
}

/// Converts up to eight bytes to a little-endian number.
fn little_endian(text: &[u8]) -> i64 {
    let mut eight = [0; 8];
    eight[..text.len()].copy_from_slice(text);
    i64::from_le_bytes(eight)
}

/// The text of the module. `imports` are further imports.
fn module_text(imports: &str, functions: &[HostFunction], exports: &str) -> String {
    let mut text = String::from(
        r#"(module
  (import "env" "memory" (memory 0))
  (import "__main_module__" "turn" (func $turn (param i32 i32) (result i32)))
  (import "__main_module__" "host_alloc" (func $alloc (param i32) (result i32)))"#,
    );
    text.push_str(imports);
    for (index, function) in functions.iter().enumerate() {
        let HostFunction { interface, name, parameters, has_result } = function;
        let parameters = " i32".repeat(*parameters);
        let result = if *has_result { " (result i32)" } else { "" };
        let _ = write!(
            text,
            "\n  (import \"{interface}\" \"{name}\" (func $f{index} (param{parameters}){result}))"
        );
    }
    text.push_str(
        r#"
  (global $parameters (mut i32) (i32.const 0))
  (global $returned (mut i32) (i32.const 0))
  (func $realloc (param i32 i32 i32 i32) (result i32) (call $alloc (local.get 3)))
  (export "cabi_import_realloc" (func $realloc))
  (export "cabi_export_realloc" (func $realloc))"#,
    );
    text.push_str(REQUESTS);
    for (index, function) in functions.iter().enumerate() {
        let mut call = format!("(call $f{index}");
        for parameter in 0..function.parameters {
            let _ = write!(call, " (i32.load offset={} (local.get $from))", 4 + 4 * parameter);
        }
        call.push(')');
        if function.has_result {
            call = format!("(call $number {call} (local.get $address) (local.get $length))");
        }
        let number = FIRST_HOST_FUNCTION + index;
        let _ = writeln!(
            text,
            "    (if (i32.eq (local.get $request) (i32.const {number})) (then {call} (return (i32.const 0))))"
        );
    }
    text.push_str("    (i32.const -1))\n");
    text.push_str(&exports.replace("ENTRY", ENTRY));
    text.push_str(")\n");
    text
}
