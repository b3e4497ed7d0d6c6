//! The engine's configuration. Compiling and running must agree on it to the last bit, so it is
//! made here and nowhere else.

use std::num::NonZeroUsize;
use wasmtime::{Config, Engine, WasmBacktraceDetails};

/// Bytes of stack that guest code may use. The thread that calls a guest needs this much and 2 MB
/// more: the engine does not check the thread, and running over its end aborts the process.
pub const MAX_WASM_STACK: usize = 1 << 20;

/// Frames of a guest's stack in an error. A panic alone takes about ten.
const MAX_FRAMES: Option<NonZeroUsize> = NonZeroUsize::new(40);

/// An engine for compiling, loading and running. With `fuel`, guest code counts its instructions,
/// which makes it slower; the two kinds do not load each other's code.
///
/// There is no other interruption in guest code: a time-out kills the worker process.
///
/// # Errors
/// If the machine's processor is not supported.
pub fn engine(fuel: bool) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .consume_fuel(fuel)
        .epoch_interruption(false)
        .max_wasm_stack(MAX_WASM_STACK)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .wasm_backtrace_max_frames(MAX_FRAMES)
        // The same job gives the same rows on every machine.
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        // Shared memories would be outside of the memory budget.
        .shared_memory(false)
        // One call at a time: no bookkeeping for concurrent calls.
        .concurrency_support(false);
    Engine::new(&config)
}
