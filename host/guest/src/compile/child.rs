//! The process that looks into entry scripts, as itself sees it. It needs no files but those that it
//! was started with: an entry script, and a place for what it makes of it.

use super::description::describe;
use super::{
    CompileError, Instrumentation, Outline, cache, check_names, compiling_engine, componentize,
    find_entry, read_names,
};
use crate::model::{ByteSize, OsSandbox};
use crate::wall::{self, Bounds, Occupant, Wall};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use wasmtime::Engine;
use wasmtime::component::Component;

/// The hidden subcommand that must end in [`serve_compile`].
pub const COMPILE_COMMAND: &str = "compile-component";

/// Tells whether all that a component imports is there, function by function. What is there is known
/// further up, to whoever runs components.
pub type CheckImports = fn(&Engine, &Component) -> Result<(), CompileError>;

/// CPU seconds of all threads together.
pub(super) const CPU_SECONDS: u64 = 1800;
/// Bytes of memory that the compiler may write to.
pub(super) const MEMORY_BYTES: u64 = 8 << 30;
/// Bytes of compiled code.
pub(super) const CODE_BYTES: u64 = 4 << 30;
/// Bytes of an answer.
pub(super) const ANSWER_BYTES: u64 = 4 << 20;
/// Bytes of an error message, which may tell types of any length.
const MESSAGE_BYTES: usize = 16 << 10;
/// Bytes of an entry script.
pub(super) const SCRIPT_BYTES: u64 = 1 << 30;
/// Files open at once: the compiler's library looks at how many processors there are.
const OPEN_FILES: u64 = 64;

/// The words of the command line.
const COMPILE: &str = "compile";
const COMPONENTIZE: &str = "componentize";
const OUTLINE: &str = "outline";
const DESCRIBE: &str = "describe";
const FUEL: &str = "fuel";
const PROFILE: &str = "profile";
const DETERMINISTIC: &str = "deterministic";

/// What to do with an entry script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Check that it keeps the contract, and compile it.
    Compile {
        /// What its SHA-256 must be, in hex.
        digest: String,
        with: Instrumentation,
    },
    /// Make a component of a core module.
    Componentize,
    /// Tell an [`Outline`].
    Outline,
    /// Tell a [`Description`](super::Description).
    Describe,
}

impl Task {
    /// As the arguments of [`COMPILE_COMMAND`].
    pub(super) fn words(&self, mode: OsSandbox) -> Vec<String> {
        let words = match self {
            Self::Compile { digest, with } => {
                let more = [
                    (with.fuel, FUEL),
                    (with.profile, PROFILE),
                    (with.deterministic, DETERMINISTIC),
                ];
                let more = more.iter().filter(|(wanted, _)| *wanted).map(|(_, word)| *word);
                [mode.name(), COMPILE, digest].into_iter().chain(more).collect()
            }
            Self::Componentize => vec![mode.name(), COMPONENTIZE],
            Self::Outline => vec![mode.name(), OUTLINE],
            Self::Describe => vec![mode.name(), DESCRIBE],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    fn parse(words: &[String]) -> Option<(Self, OsSandbox)> {
        let (mode, words) = words.split_first()?;
        let mode = OsSandbox::ALL.into_iter().find(|known| known.name() == mode)?;
        let (what, words) = words.split_first()?;
        let task = match (what.as_str(), words) {
            (COMPILE, [digest, more @ ..]) => {
                let mut with = Instrumentation::default();
                for word in more {
                    match word.as_str() {
                        FUEL => with.fuel = true,
                        PROFILE => with.profile = true,
                        DETERMINISTIC => with.deterministic = true,
                        _ => return None,
                    }
                }
                Self::Compile { digest: digest.clone(), with }
            }
            (COMPONENTIZE, []) => Self::Componentize,
            (OUTLINE, []) => Self::Outline,
            (DESCRIBE, []) => Self::Describe,
            _ => return None,
        };
        Some((task, mode))
    }

    /// Does it. The only place where the bytes of an entry script are looked into.
    fn perform(&self, bytes: Vec<u8>, check: CheckImports) -> Result<Vec<u8>, CompileError> {
        match self {
            Self::Compile { digest, with } => {
                // The name in the cache was made from what the leader read. Code of anything else
                // under that name would be run for whoever owns the file with that digest.
                if cache::digest(&bytes) != *digest {
                    return Err(CompileError::new("it changed while it was read: start again"));
                }
                translate(bytes, *with, check)
            }
            Self::Componentize => componentize(bytes),
            Self::Outline => {
                let component = componentize(bytes)?;
                let outline =
                    Outline { bytes: component.len() as u64, names: read_names(&component)? };
                answer(&outline)
            }
            Self::Describe => answer(&describe(bytes)?),
        }
    }
}

/// What is told of an entry script, as the parent reads it.
fn answer(told: &impl Serialize) -> Result<Vec<u8>, CompileError> {
    let answer = postcard::to_stdvec(told)
        .map_err(|error| CompileError(format!("its names cannot be told: {error}")))?;
    if answer.len() as u64 > ANSWER_BYTES {
        return Err(CompileError(format!(
            "the names of its imports and exports take {} bytes, and at most {} are read: leave out \
             what it does not use",
            answer.len(),
            ByteSize(ANSWER_BYTES)
        )));
    }
    Ok(answer)
}

/// The body of `sandmill compile-component`: standard input is the entry script, standard output takes
/// what comes of it, standard error one message for people.
pub fn serve_compile(arguments: &[String], check: CheckImports) -> ExitCode {
    match serve(arguments, check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            let told = &text[..text.floor_char_boundary(MESSAGE_BYTES)];
            let cut = if told.len() < text.len() { " ... (cut)" } else { "" };
            // There is nobody left to tell if this fails.
            let _ = writeln!(io::stderr(), "{told}{cut}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &[String], check: CheckImports) -> Result<(), CompileError> {
    let (task, mode) = Task::parse(arguments)
        .ok_or_else(|| CompileError::new("this command is run by sandmill itself"))?;
    wall::enter().map_err(|error| CompileError::new(error.to_string()))?;
    // Found in a file and kept: behind the wall no file can be opened, and the engine asks for it.
    let _ = rustix::param::page_size();
    lock_down(mode)?;
    let made = task.perform(read(&mut io::stdin().lock())?, check)?;
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&made)
        .and_then(|()| stdout.flush())
        .map_err(|error| CompileError::new(format!("what was made cannot be written: {error}")))
}

fn lock_down(mode: OsSandbox) -> Result<(), CompileError> {
    let bounds = Bounds {
        memory: Some(MEMORY_BYTES),
        cpu_seconds: Some(CPU_SECONDS),
        largest_file: CODE_BYTES,
        open_files: OPEN_FILES,
    };
    let wall = Wall { occupant: Occupant::Compiler, mode, folders: Vec::new(), bounds };
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
        return Err(CompileError(format!("it is larger than {most}, the largest entry script")));
    }
    Ok(bytes)
}

/// From the bytes of an entry script to compiled code, with every check of the contract.
fn translate(
    bytes: Vec<u8>,
    with: Instrumentation,
    check: CheckImports,
) -> Result<Vec<u8>, CompileError> {
    let component = componentize(bytes)?;
    check_names(&read_names(&component)?)?;
    let engine = compiling_engine(with)
        .map_err(|error| CompileError::new(format!("the engine cannot start: {error:#}")))?;
    let component = Component::from_binary(&engine, &component).map_err(|error| {
        CompileError::new(format!("it is no valid component, or cannot be compiled: {error:#}"))
    })?;
    find_entry(&engine, &component)?;
    check(&engine, &component)?;
    component
        .serialize()
        .map_err(|error| CompileError::new(format!("the code cannot be serialized: {error:#}")))
}

/// Compiles in this process, for tests of what runs components.
#[cfg(any(test, feature = "testing"))]
pub fn compile_here(
    component: &[u8],
    with: Instrumentation,
) -> Result<std::fs::File, CompileError> {
    let code = translate(component.to_vec(), with, |_, _| Ok(()))?;
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(&code).expect("writes");
    // As the cache does.
    file.write_all(&[7; 40]).expect("writes");
    Ok(file)
}

/// Does a task in this process, for tests.
#[cfg(any(test, feature = "testing"))]
pub(super) fn perform_here(
    task: &Task,
    mut source: std::fs::File,
    target: Option<&std::fs::File>,
) -> Result<Vec<u8>, CompileError> {
    let made = task.perform(read(&mut source)?, |_, _| Ok(()))?;
    match target {
        Some(mut target) => target.write_all(&made).map(|()| Vec::new()).map_err(|error| {
            CompileError::new(format!("what was made cannot be written: {error}"))
        }),
        None => Ok(made),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;

    const NONE: Instrumentation =
        Instrumentation { fuel: false, profile: false, deterministic: false };

    #[test]
    fn tasks_are_words_of_the_command_line() {
        let all = Instrumentation { fuel: true, profile: true, deterministic: true };
        for with in [NONE, all] {
            let task = Task::Compile { digest: "0a".into(), with };
            assert_eq!(Task::parse(&task.words(OsSandbox::Off)), Some((task, OsSandbox::Off)));
        }
        for mode in OsSandbox::ALL {
            for task in [Task::Componentize, Task::Outline, Task::Describe] {
                assert_eq!(Task::parse(&task.words(mode)), Some((task, mode)));
            }
        }
        for wrong in ["", "required", "required compile", "none outline", "off outline x"] {
            let words: Vec<_> = wrong.split(' ').map(str::to_owned).collect();
            assert_eq!(Task::parse(&words), None, "{wrong}");
        }
    }

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
        assert!(error.to_string().contains("imports what is not granted"), "{error}");
        let mut damaged = testing::component("run-only", testing::RUN_EMPTY);
        let middle = damaged.len() / 2;
        damaged[middle..].fill(0xff);
        translate(damaged, NONE, |_, _| Ok(())).expect_err("damaged");
    }

    #[test]
    fn compiles_what_the_leader_read_and_nothing_else() {
        let component = testing::component("run-only", testing::RUN_EMPTY);
        let task = Task::Compile { digest: cache::digest(b"another"), with: NONE };
        let error =
            task.perform(component, |_, _| Ok(())).expect_err("not what was read").to_string();
        assert!(error.contains("it changed while it was read"), "{error}");
    }
}
