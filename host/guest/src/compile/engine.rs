//! The engine's configuration. Compiling and running must agree on it to the last bit, so it is
//! made here and nowhere else.

use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::sync::Arc;
use wasmtime::{Collector, Config, CustomCodeMemory, Engine, WasmBacktraceDetails};

/// Bytes of stack that guest code may use where nothing else is asked for.
const STACK: usize = 1 << 20;

/// Frames of a guest's stack in an error. A panic alone takes about ten.
pub const MAX_FRAMES: usize = 40;

/// Frames of a guest's stack in a sample of a profile. An interpreter takes many.
const PROFILED_FRAMES: usize = 500;

/// The version of the engine.
pub const WASMTIME_VERSION: &str = "48.0.8";

/// What guest code does beside its work. Each makes it slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrumentation {
    /// It counts its instructions.
    pub fuel: bool,
    /// It looks up now and then whether it is to be interrupted for a sample.
    pub profile: bool,
    /// Whatever the processor, the same inputs give the same bits.
    pub deterministic: bool,
}

impl Instrumentation {
    /// The words of what is done, as they stand on command lines.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let all =
            [(self.fuel, "fuel"), (self.profile, "profile"), (self.deterministic, "deterministic")];
        all.into_iter().filter(|(is_done, _)| *is_done).map(|(_, word)| word)
    }

    /// What such words say; `None` if one is none of them.
    pub(super) fn of_words<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut with = Self::default();
        for word in words {
            match word {
                "fuel" => with.fuel = true,
                "profile" => with.profile = true,
                "deterministic" => with.deterministic = true,
                _ => return None,
            }
        }
        Some(with)
    }
}

/// An engine for compiling, loading and running. Engines that differ in instrumentation do not load
/// each other's code.
///
/// There is no other interruption in guest code: a time-out kills the worker process.
///
/// # Errors
/// If the machine's processor is not supported.
pub fn engine(with: Instrumentation) -> wasmtime::Result<Engine> {
    engine_with_stack(with, STACK)
}

/// The same, for guests that may use so many bytes of stack. Engines that differ in this only load each
/// other's code. The thread that calls a guest needs more: the engine does not check it.
///
/// # Errors
/// If the machine's processor is not supported.
pub fn engine_with_stack(with: Instrumentation, stack: usize) -> wasmtime::Result<Engine> {
    Engine::new(&config(with, stack))
}

/// An engine whose code cannot be run in this process: for whoever compiles, behind a wall through
/// which no memory becomes executable. [`engine`] loads its code.
pub(super) fn compiling_engine(with: Instrumentation) -> wasmtime::Result<Engine> {
    Engine::new(config(with, STACK).with_custom_code_memory(Some(Arc::new(NeverExecutable))))
}

/// Memory for code that stays readable.
struct NeverExecutable;

impl CustomCodeMemory for NeverExecutable {
    fn required_alignment(&self) -> usize {
        rustix::param::page_size()
    }

    fn publish_executable(&self, _: *const u8, _: usize) -> wasmtime::Result<()> {
        Ok(())
    }

    fn unpublish_executable(&self, _: *const u8, _: usize) -> wasmtime::Result<()> {
        Ok(())
    }
}

fn config(with: Instrumentation, stack: usize) -> Config {
    let mut config = Config::new();
    // With lines of the source, each frame of each sample would be looked up in debug information:
    // a stack then takes longer than the time between two samples.
    let (details, frames) = if with.profile {
        (WasmBacktraceDetails::Disable, PROFILED_FRAMES)
    } else {
        (WasmBacktraceDetails::Enable, MAX_FRAMES)
    };
    config
        .consume_fuel(with.fuel)
        .epoch_interruption(with.profile)
        .max_wasm_stack(stack)
        // Not used, but checked.
        .async_stack_size(stack.saturating_add(1 << 20))
        .wasm_backtrace_details(details)
        .wasm_backtrace_max_frames(NonZeroUsize::new(frames))
        // The same job gives the same rows on every machine.
        .relaxed_simd_deterministic(true)
        .cranelift_nan_canonicalization(with.deterministic)
        .wasm_memory64(false)
        // C++ and setjmp need exceptions. Nothing needs the rest of the proposals on garbage collection: only
        // exceptions may lie in the collector's heap, whose growth the memory budget counts.
        .wasm_exceptions(true)
        .wasm_gc(false)
        .wasm_function_references(false)
        .collector(Collector::DeferredReferenceCounting)
        // Shared memories would be outside of the memory budget.
        .shared_memory(false)
        // One call at a time: no bookkeeping for concurrent calls.
        .concurrency_support(false);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_which_is_built_in() {
        let lock = include_str!("../../../../Cargo.lock");
        let entry = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"");
        assert!(lock.contains(&entry), "WASMTIME_VERSION is another one than in Cargo.lock");
    }
}
