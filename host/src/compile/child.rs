//! The process that compiles. It alone looks into an entry script of unknown origin: a file that
//! makes the parser or compiler run wild takes this process with it and nothing else.

use super::{
    CompileError, Instrumentation, cache, check_names, componentize, engine, find_entry, read_names,
};
use crate::process::{die_with_parent, limit};
use rustix::process::Resource;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use wasmtime::component::Component;

/// The hidden subcommand that must end in [`serve_compile`].
pub const COMPILE_COMMAND: &str = "compile-component";

/// The words that ask for instrumentation.
const FUEL: &str = "fuel";
const PROFILE: &str = "profile";
const DETERMINISTIC: &str = "deterministic";

/// CPU seconds of all threads together.
const CPU_SECONDS: u64 = 1800;
/// Bytes of memory that the compiler may write to.
const MEMORY_BYTES: u64 = 16 << 30;
/// Bytes of compiled code.
const CODE_BYTES: u64 = 4 << 30;
/// Bytes of an entry script.
const SCRIPT_BYTES: u64 = 1 << 30;
/// Bytes of an error message.
const MESSAGE_BYTES: u64 = 64 << 10;

/// Runs the compiler on `source` and writes the code to `target`. `digest` is what the caller read.
pub(super) fn compile(
    program: &Path,
    source: File,
    target: &File,
    digest: &str,
    with: Instrumentation,
) -> Result<(), CompileError> {
    let cannot = |error: io::Error| {
        CompileError::new(format!("{} cannot be run to compile it: {error}", program.display()))
    };
    let mut child = Command::new(program)
        .arg(COMPILE_COMMAND)
        .arg(digest)
        .args(with.fuel.then_some(FUEL))
        .args(with.profile.then_some(PROFILE))
        .args(with.deterministic.then_some(DETERMINISTIC))
        .stdin(source)
        .stdout(target.try_clone().map_err(cannot)?)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let mut message = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MESSAGE_BYTES).read_to_end(&mut message).map_err(cannot)?;
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&message);
    Err(CompileError::new(match message.trim() {
        "" => died(status),
        text => text.to_owned(),
    }))
}

fn died(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGXCPU) => format!(
            "compiling was ended after {CPU_SECONDS} seconds of processor time: the entry script \
             is too large or made to take long"
        ),
        Some(libc::SIGXFSZ) => format!("the compiled code would be larger than {CODE_BYTES} bytes"),
        Some(libc::SIGKILL) => {
            "the compiler was killed, probably because the machine has too little memory".into()
        }
        _ => format!("the compiler ended without a word ({status})"),
    }
}

/// The body of `sandmill compile-component DIGEST [fuel] [profile] [deterministic]`: standard input is the entry
/// script, standard output the file for the code, standard error takes one message for people.
pub fn serve_compile(arguments: &[String]) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody left to tell if this fails.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &[String]) -> Result<(), CompileError> {
    let wrong = || CompileError::new("this command is run by sandmill itself");
    let (expected, words) = arguments.split_first().ok_or_else(wrong)?;
    let mut with = Instrumentation::default();
    for word in words {
        match word.as_str() {
            FUEL => with.fuel = true,
            PROFILE => with.profile = true,
            DETERMINISTIC => with.deterministic = true,
            _ => return Err(wrong()),
        }
    }
    die_with_parent().map_err(|error| CompileError::new(error.to_string()))?;
    limit(Resource::Cpu, CPU_SECONDS);
    limit(Resource::Data, MEMORY_BYTES);
    limit(Resource::Fsize, CODE_BYTES);
    limit(Resource::Core, 0);
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(SCRIPT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CompileError::new(format!("it cannot be read: {error}")))?;
    if bytes.len() as u64 > SCRIPT_BYTES {
        return Err(CompileError::new(format!("it is larger than {SCRIPT_BYTES} bytes")));
    }
    // The name in the cache was made from what the leader read. Code of anything else under that
    // name would be run for whoever owns the file with that digest.
    if cache::digest(&bytes) != *expected {
        return Err(CompileError::new("it changed while it was read: start again"));
    }
    let code = translate(bytes, with)?;
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&code)
        .and_then(|()| stdout.flush())
        .map_err(|error| CompileError::new(format!("the compiled code cannot be written: {error}")))
}

/// From the bytes of an entry script to compiled code, with every check of the contract.
fn translate(bytes: Vec<u8>, with: Instrumentation) -> Result<Vec<u8>, CompileError> {
    let component = componentize(bytes)?;
    check_names(&read_names(&component)?)?;
    let engine = engine(with)
        .map_err(|error| CompileError::new(format!("the engine cannot start: {error:#}")))?;
    let component = Component::from_binary(&engine, &component).map_err(|error| {
        CompileError::new(format!("it is no valid component, or cannot be compiled: {error:#}"))
    })?;
    find_entry(&engine, &component)?;
    component
        .serialize()
        .map_err(|error| CompileError::new(format!("the code cannot be serialized: {error:#}")))
}

/// Compiles in this process, for tests of what runs components.
#[cfg(test)]
pub(crate) fn compile_here(component: &[u8], with: Instrumentation) -> Result<File, CompileError> {
    let code = translate(component.to_vec(), with)?;
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(&code).expect("writes");
    // As the cache does.
    file.write_all(&[7; 40]).expect("writes");
    Ok(file)
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
        translate(module.clone(), NONE).expect("a module with metadata");
        let component = componentize(module).expect("fits");
        let all = Instrumentation { fuel: true, profile: true, deterministic: true };
        translate(component, all).expect("a component");
    }

    #[test]
    fn refuses_before_compiling() {
        let import = r#"(component (import "wasi:nn/graph@0.2.0" (instance)))"#;
        let error = translate(wat::parse_str(import).expect("valid"), NONE).expect_err("nn");
        assert!(error.to_string().contains("imports what is not granted"), "{error}");
        let mut damaged = testing::component("run-only", testing::RUN_EMPTY);
        let middle = damaged.len() / 2;
        damaged[middle..].fill(0xff);
        translate(damaged, NONE).expect_err("damaged");
    }

    #[test]
    fn says_how_the_compiler_ended() {
        assert!(died(ExitStatus::from_raw(libc::SIGXCPU)).contains("1800 seconds"));
        assert!(died(ExitStatus::from_raw(libc::SIGKILL)).contains("too little memory"));
        assert!(died(ExitStatus::from_raw(libc::SIGSEGV)).contains("SIGSEGV"));
    }
}
