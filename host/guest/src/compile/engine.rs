//! Configures the wasmtime engine. Compiling and running must agree on every setting, so only this module
//! sets them.

use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::sync::Arc;
use wasmtime::{Collector, Config, CustomCodeMemory, Engine, WasmBacktraceDetails};

/// The default stack size of guest code, in bytes.
const DEFAULT_STACK_BYTES: usize = 1 << 20;

/// The maximum number of guest stack frames in an error. A panic adds about ten frames.
pub const MAX_FRAMES: usize = 40;

/// The maximum number of guest stack frames in a profile's sample. An interpreter has many frames.
const MAX_PROFILED_FRAMES: usize = 500;

/// The version of wasmtime.
pub const WASMTIME_VERSION: &str = "48.0.8";

/// Instructions that the compiler adds to guest code. Each kind makes the code slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrumentation {
    /// The guest counts its instructions.
    pub fuel: bool,
    /// The guest regularly checks whether it should stop for a sample.
    pub profile: bool,
    /// The same inputs give the same bits on every processor.
    pub deterministic: bool,
}

impl Instrumentation {
    /// The names of the enabled settings, for a command line.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let settings =
            [(self.fuel, "fuel"), (self.profile, "profile"), (self.deterministic, "deterministic")];
        settings.into_iter().filter(|(is_enabled, _)| *is_enabled).map(|(_, word)| word)
    }

    /// Parses the words that [`Instrumentation::words`] returns. `None` if a word is unknown.
    pub(super) fn parse_words<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
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

/// An engine for compiling, loading and running. Engines with different instrumentation cannot load each
/// other's code.
///
/// The engine does not interrupt guest code at a time-out. Instead, the leader kills the worker
/// process.
///
/// # Errors
/// If the machine's processor is not supported.
pub fn engine(with: Instrumentation) -> wasmtime::Result<Engine> {
    engine_with_stack(with, DEFAULT_STACK_BYTES)
}

/// [`engine`] for guests with a stack of this many bytes. Engines that differ only in the stack size can load
/// each other's code. The thread that calls the guest needs a larger stack; the engine does not check that.
///
/// # Errors
/// If the machine's processor is not supported.
pub fn engine_with_stack(with: Instrumentation, stack: usize) -> wasmtime::Result<Engine> {
    Engine::new(&config(with, stack))
}

/// An engine for the compiler process. Its code cannot run in this process, because the compiler's wall
/// forbids executable memory. An [`engine`] can load the code.
pub(super) fn compiling_engine(with: Instrumentation) -> wasmtime::Result<Engine> {
    Engine::new(
        config(with, DEFAULT_STACK_BYTES).with_custom_code_memory(Some(Arc::new(NeverExecutable))),
    )
}

/// Memory for code that is never made executable.
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
    // A profile has no source lines: looking them up in the debug information for each frame of a sample
    // would take longer than the interval between two samples.
    let (details, frames) = if with.profile {
        (WasmBacktraceDetails::Disable, MAX_PROFILED_FRAMES)
    } else {
        (WasmBacktraceDetails::Enable, MAX_FRAMES)
    };
    config
        .consume_fuel(with.fuel)
        .epoch_interruption(with.profile)
        .max_wasm_stack(stack)
        // We do not use this setting, but wasmtime validates it.
        .async_stack_size(stack.saturating_add(1 << 20))
        .wasm_backtrace_details(details)
        .wasm_backtrace_max_frames(NonZeroUsize::new(frames))
        // So that the same job gives the same rows on every machine.
        .relaxed_simd_deterministic(true)
        .cranelift_nan_canonicalization(with.deterministic)
        .wasm_memory64(false)
        // C++ and setjmp need exceptions. The engine stores them on the heap of its garbage collector, and
        // the memory budget counts the growth of this heap. Guests do not need the other features of garbage
        // collection.
        .wasm_exceptions(true)
        .wasm_gc(false)
        .wasm_function_references(false)
        .collector(Collector::DeferredReferenceCounting)
        // Sandmill's Python wheel is linked with libunwind. When code is unloaded, libunwind removes each
        // function from a list, which takes 5 s for the 100,000 functions of the science runtime.
        // wasmtime's own backtraces do not need this information.
        .native_unwind_info(false)
        // Shared memories would not count towards the memory budget.
        .shared_memory(false)
        // A guest runs one call at a time.
        .concurrency_support(false);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_code_has_no_native_unwind_information() {
        let module = wat::parse_str("(module (func))").unwrap();
        let has_unwind_information = |config: &Config| {
            let code = Engine::new(config).unwrap().precompile_module(&module).unwrap();
            code.windows(9).any(|bytes| bytes == b".eh_frame")
        };
        let mut config = config(Instrumentation::default(), DEFAULT_STACK_BYTES);
        assert!(!has_unwind_information(&config));
        assert!(has_unwind_information(config.native_unwind_info(true)), "the name of the section");
    }

    #[test]
    fn the_version_matches_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        let entry = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"");
        assert!(lock.contains(&entry), "WASMTIME_VERSION differs from Cargo.lock");
    }
}
