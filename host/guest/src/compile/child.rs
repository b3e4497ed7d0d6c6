//! The compiler process itself. Its standard input is the open entry script, and its standard
//! output receives the result, so it need not open either of them.

use super::description::describe;
use super::hash::digest;
use super::imports::ADVICE_FOR_WASI_0_3;
use super::task::{ANSWER_BYTES, CODE_BYTES, CPU_SECONDS, CompileTask, MEMORY_BYTES, SCRIPT_BYTES};
use super::{
    AcceptedKind, CompileError, ComponentOutline, Instrumentation, check_names, compiling_engine,
    componentize, find_entry, interpreter, read_names,
};
use crate::model::{ByteSize, OsSandbox};
use crate::wall::{self, ResourceLimits, Wall, WallRole};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Checks that the host has each function that a component imports. The module `sandbox` provides the check,
/// because it defines the host's functions.
pub type CheckImports = fn(&Engine, &Component) -> Result<(), CompileError>;

/// The maximum length of an error message, in bytes. A message may contain types of any length.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// The limit on open files. Libraries of the compiler open files to count the processors.
const MAX_OPEN_FILES: u64 = 64;

impl CompileTask {
    /// Performs the task. Only this code parses the bytes of an entry script.
    fn perform(&self, bytes: Vec<u8>, check: CheckImports) -> Result<Vec<u8>, CompileError> {
        match self {
            Self::Compile { digest: expected, with } => {
                // The leader (the main process) names the cache entry after the digest of the bytes that it
                // read. If other bytes were compiled, their code would later run for the script that has this
                // digest.
                if digest(&bytes) != *expected {
                    return Err(CompileError::new("it changed while it was read: start again"));
                }
                translate(bytes, *with, check)
            }
            Self::Componentize => componentize(bytes),
            Self::Outline => {
                let component = componentize(bytes)?;
                encode_answer(&ComponentOutline {
                    bytes: component.len() as u64,
                    names: read_names(&component)?,
                    takes: AcceptedKind::read(&component),
                })
            }
            Self::Describe => encode_answer(&describe(bytes)?),
            Self::Prepare(text) => interpreter::preparing(&bytes, text),
            Self::Snapshot(length) => {
                let (module, memory) = bytes.split_at_checked(*length).ok_or_else(|| {
                    CompileError::new("the interpreter's module is shorter than announced")
                })?;
                interpreter::assemble(&interpreter::snapshot(module, memory)?)
            }
        }
    }
}

/// Encodes a result for the parent.
fn encode_answer(reported: &impl Serialize) -> Result<Vec<u8>, CompileError> {
    let answer = postcard::to_stdvec(reported).map_err(|error| {
        CompileError(format!("the names of its imports and exports cannot be encoded: {error}"))
    })?;
    if answer.len() as u64 > ANSWER_BYTES {
        return Err(CompileError(format!(
            "the names of its imports and exports take {} bytes, but the limit is {}: remove imports and \
             exports that are not used",
            answer.len(),
            ByteSize(ANSWER_BYTES)
        )));
    }
    Ok(answer)
}

/// The body of `sandmill compile-component`: reads the entry script from standard input, writes the result to
/// standard output, and one error message for the user to standard error.
pub fn serve_compile(arguments: &[String], check: CheckImports) -> ExitCode {
    match serve(arguments, check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            let reported = &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)];
            let cut = if reported.len() < text.len() { " ... (cut)" } else { "" };
            // If this write fails, there is no other way to report the error.
            let _ = writeln!(io::stderr(), "{reported}{cut}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &[String], check: CheckImports) -> Result<(), CompileError> {
    let (task, mode) = CompileTask::parse(arguments)
        .ok_or_else(|| CompileError::new("this command is run by sandmill itself"))?;
    wall::enter().map_err(|error| CompileError::new(error.to_string()))?;
    // The engine needs the page size, which rustix reads from a file and caches. Read it now: behind the wall
    // no file can be opened.
    let _ = rustix::param::page_size();
    lock_down(mode)?;
    let result = task.perform(read(&mut io::stdin().lock())?, check)?;
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&result)
        .and_then(|()| stdout.flush())
        .map_err(|error| CompileError::new(format!("the result cannot be written: {error}")))
}

fn lock_down(mode: OsSandbox) -> Result<(), CompileError> {
    let bounds = ResourceLimits {
        memory: Some(MEMORY_BYTES),
        cpu_seconds: Some(CPU_SECONDS),
        largest_file: CODE_BYTES,
        open_files: MAX_OPEN_FILES,
    };
    let wall = Wall { role: WallRole::Compiler, mode, folders: Vec::new(), bounds };
    wall.build().map(drop).map_err(|error| CompileError::new(error.to_string()))
}

fn read(source: &mut impl Read) -> Result<Vec<u8>, CompileError> {
    let mut bytes = Vec::new();
    source
        .take(SCRIPT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CompileError::new(format!("it cannot be read: {error}")))?;
    if bytes.len() as u64 > SCRIPT_BYTES {
        let most = ByteSize(SCRIPT_BYTES);
        return Err(CompileError(format!("it is larger than {most}, the limit for entry scripts")));
    }
    Ok(bytes)
}

/// Compiles the bytes of an entry script, after all checks of the contract. The last byte of the result is
/// the kind of mini-batch that the script takes.
fn translate(
    bytes: Vec<u8>,
    with: Instrumentation,
    check: CheckImports,
) -> Result<Vec<u8>, CompileError> {
    let component = componentize(bytes)?;
    check_names(&read_names(&component)?)?;
    let engine = compiling_engine(with)
        .map_err(|error| CompileError::new(format!("the engine cannot start: {error:#}")))?;
    let takes = AcceptedKind::read(&component);
    let component = Component::from_binary(&engine, &component).map_err(|error| {
        let error = format!("{error:#}");
        let advice = async_advice(&error);
        CompileError(format!("it is not a valid component, or cannot be compiled: {error}{advice}"))
    })?;
    find_entry(&engine, &component)?;
    check(&engine, &component)?;
    let mut code = component
        .serialize()
        .map_err(|error| CompileError::new(format!("the code cannot be serialized: {error:#}")))?;
    code.push(AcceptedKind::to_byte(takes));
    Ok(code)
}

/// Advice for a component that was built for WASI 0.3; empty for other errors.
fn async_advice(error: &str) -> String {
    if error.contains("component model async") {
        format!("\nIt was built for WASI 0.3, and this Sandmill runs WASI 0.2{ADVICE_FOR_WASI_0_3}")
    } else {
        String::new()
    }
}

/// Compiles in this process, for tests of code that runs components.
#[cfg(any(test, feature = "testing"))]
pub fn compile_here(
    component: &[u8],
    with: Instrumentation,
) -> Result<std::fs::File, CompileError> {
    let code = translate(component.to_vec(), with, |_, _| Ok(()))?;
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(&code).expect("writes");
    // A placeholder for the trailer that the cache appends.
    file.write_all(&[7; 40]).expect("writes");
    Ok(file)
}

/// Performs a task in this process, for tests.
#[cfg(any(test, feature = "testing"))]
pub(super) fn perform_here(
    task: &CompileTask,
    mut source: std::fs::File,
    target: Option<&std::fs::File>,
) -> Result<Vec<u8>, CompileError> {
    let result = task.perform(read(&mut source)?, |_, _| Ok(()))?;
    match target {
        Some(mut target) => target
            .write_all(&result)
            .map(|()| Vec::new())
            .map_err(|error| CompileError::new(format!("the result cannot be written: {error}"))),
        None => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;

    const NONE: Instrumentation =
        Instrumentation { fuel: false, profile: false, deterministic: false };

    #[test]
    fn translates_modules_and_components() {
        let module = testing::module("run-only", testing::RUN_EMPTY);
        translate(module.clone(), NONE, |_, _| Ok(())).expect("a module with metadata");
        let component = componentize(module).expect("fits");
        let all = Instrumentation { fuel: true, profile: true, deterministic: true };
        translate(component, all, |_, _| Ok(())).expect("a component");
    }

    #[test]
    fn refuses_before_compiling() {
        let import = r#"(component (import "wasi:nn/graph@0.2.0" (instance)))"#;
        let error =
            translate(wat::parse_str(import).expect("valid"), NONE, |_, _| Ok(())).expect_err("nn");
        assert!(error.to_string().contains("imports interfaces that are not granted"), "{error}");
        let mut damaged = testing::component("run-only", testing::RUN_EMPTY);
        let middle = damaged.len() / 2;
        damaged[middle..].fill(0xff);
        translate(damaged, NONE, |_, _| Ok(())).expect_err("damaged");
    }

    #[test]
    fn errors_for_wasi_0_3_explain_how_to_build() {
        let text = |import: &str| {
            let bytes = wat::parse_str(import).expect("valid");
            translate(bytes, NONE, |_, _| Ok(())).expect_err("of WASI 0.3").to_string()
        };
        let import = text(r#"(component (import "wasi:cli/stdout@0.3.0" (instance)))"#);
        assert!(import.contains("--backend-qjs-disable-async"), "{import}");
        // jco's QuickJS uses async by default.
        let component = testing::component("run-only", testing::RUN_EMPTY);
        let mut with_async = component;
        with_async.extend([8, 2, 1, 5]);
        let built_in = text_of(&with_async);
        assert!(built_in.contains("--backend-qjs-disable-async"), "{built_in}");
    }

    fn text_of(component: &[u8]) -> String {
        translate(component.to_vec(), NONE, |_, _| Ok(())).expect_err("asks for async").to_string()
    }

    #[test]
    fn only_the_bytes_that_the_leader_read_are_compiled() {
        let component = testing::component("run-only", testing::RUN_EMPTY);
        let task = CompileTask::Compile { digest: digest(b"another"), with: NONE };
        let error =
            task.perform(component, |_, _| Ok(())).expect_err("not what was read").to_string();
        assert!(error.contains("it changed while it was read"), "{error}");
    }
}
