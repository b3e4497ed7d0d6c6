//! Combines an interpreter's module with the memory that the interpreter had after it was prepared.

use super::super::CompileError;
use std::fmt::Display;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{ExportKind, ExportSection, Module, RawSection};
use wasmparser::{KnownCustom, Name, Parser, Payload};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

/// A function of wasi-libc that clears the list of preopened folders, so that libc reads it again from the
/// host.
const RESET_FUNCTION: &str = "__wasilibc_reset_preopens";

/// The name under which the module exports [`RESET_FUNCTION`]. The generated module in `glue` calls
/// it.
const RESET_EXPORT: &str = "reset_folders";

fn failed(error: &dyn Display) -> CompileError {
    CompileError(format!("the interpreter's module cannot be read: {error:#}"))
}

/// Exports [`RESET_FUNCTION`] from the module, and removes the custom sections.
///
/// # Errors
/// If the bytes are not a module, or the module does not have the function.
pub(super) fn with_reset(module: &[u8]) -> Result<Vec<u8>, CompileError> {
    let reset = function_named(module, RESET_FUNCTION)?.ok_or_else(|| {
        CompileError(format!("the interpreter's module has no function {RESET_FUNCTION}"))
    })?;
    let mut out = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.map_err(|error| failed(&error))?;
        match &payload {
            Payload::ExportSection(section) => {
                let mut exports = ExportSection::new();
                RoundtripReencoder
                    .parse_export_section(&mut exports, section.clone())
                    .map_err(|error| failed(&error))?;
                exports.export(RESET_EXPORT, ExportKind::Func, reset);
                out.section(&exports);
            }
            Payload::CustomSection(_) => {}
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    out.section(&RawSection { id, data: &module[range] });
                }
            }
        }
    }
    Ok(out.finish())
}

/// The index of the function with this name in the module's name section.
fn function_named(module: &[u8], wanted: &str) -> Result<Option<u32>, CompileError> {
    for payload in Parser::new(0).parse_all(module) {
        let Payload::CustomSection(section) = payload.map_err(|error| failed(&error))? else {
            continue;
        };
        let KnownCustom::Name(names) = section.as_known() else { continue };
        for name in names {
            let Name::Function(functions) = name.map_err(|error| failed(&error))? else { continue };
            for function in functions {
                let function = function.map_err(|error| failed(&error))?;
                if function.name == wanted {
                    return Ok(Some(function.index));
                }
            }
        }
    }
    Ok(None)
}

/// Makes a module that starts in the state after the preparation. `memory` is the module's whole memory in
/// that state. The stack pointer (the only mutable global) has its initial value, because no function is
/// running.
///
/// # Errors
/// If the bytes are not a module, or the module changes a table or has more than one mutable global.
pub(in super::super) fn snapshot(module: &[u8], memory: &[u8]) -> Result<Vec<u8>, CompileError> {
    let module = with_reset(module)?;
    let stack_pointer = initial_stack_pointer(&module)?;
    let mut wizer = Wizer::new();
    wizer.init_func("wizer.initialize");
    let cannot = |error: wasmtime::Error| {
        CompileError(format!("the interpreter cannot be saved: {error:#}"))
    };
    let (context, _) = wizer.instrument(&module).map_err(cannot)?;
    let mut state = PreparedState { stack_pointer, memory };
    let future = pin!(wizer.snapshot(&context, &mut state));
    // The future never waits, so one poll completes it.
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(kept) => kept.map_err(cannot),
        Poll::Pending => Err(CompileError::new(
            "the interpreter cannot be saved: saving did not finish in one step",
        )),
    }
}

/// The state that is saved: the global and the memory.
struct PreparedState<'a> {
    stack_pointer: i32,
    memory: &'a [u8],
}

impl InstanceState for PreparedState<'_> {
    async fn global_get(&mut self, _: &str, _: ValType) -> SnapshotVal {
        SnapshotVal::I32(self.stack_pointer)
    }

    async fn memory_contents(&mut self, _: &str, contents: impl FnOnce(&[u8]) + Send) {
        contents(self.memory);
    }
}

/// The initial value of the module's only mutable global, which is the stack pointer.
fn initial_stack_pointer(module: &[u8]) -> Result<i32, CompileError> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::GlobalSection(section) = payload.map_err(|error| failed(&error))? else {
            continue;
        };
        for global in section {
            let global = global.map_err(|error| failed(&error))?;
            if global.ty.mutable {
                let first = global.init_expr.get_operators_reader().read();
                found.push(first.map_err(|error| failed(&error))?);
            }
        }
    }
    match found.as_slice() {
        [wasmparser::Operator::I32Const { value }] => Ok(*value),
        _ => Err(CompileError(format!(
            "the interpreter cannot be saved: it has {} mutable globals, but only the stack pointer is supported",
            found.len()
        ))),
    }
}
