//! Trying backends out in a child process: a library that breaks takes that process with it, not the
//! leader. Both sides are here.

use super::onnxruntime::{Library, NO_TELEMETRY};
use super::{ModelSource, TensorType, TensorView, Wanted, tract_cuda};
use crate::model::{OsSandbox, printable};
use crate::wall::{self, Bounds, Occupant, Wall, death};
use serde::{Deserialize, Serialize};
use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The hidden subcommand that must end in [`serve_probe`].
pub const PROBE_COMMAND: &str = "probe-backends";

/// The version of tract that this program holds.
const TRACT_VERSION: &str = "0.23.9";

/// The longest that one try may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked whether it is over.
const TICK: Duration = Duration::from_millis(2);
/// Bytes of what the child says.
const SAID_BYTES: u64 = 64 << 10;
/// Bytes that a try may take, and files that it may have open.
const MEMORY_BYTES: u64 = 4 << 30;
const OPEN_FILES: u64 = 256;

/// The tasks of the child, as words of its command line.
const TRACT_GPU: &str = "tract-gpu";
const ONNXRUNTIME: &str = "onnxruntime";
const ONNXRUNTIME_GPU: &str = "onnxruntime-gpu";

/// `y = x + x`, with f32 and any number of elements.
const DOUBLE: &[u8] = b"\x08\x08\x12\x00:7\n\x0e\n\x01x\n\x01x\x12\x01y\"\x03Add\x12\x01gZ\x10\n\x01x\
    \x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01nb\x10\n\x01y\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01n\
    B\x04\n\x00\x10\r";

/// What a backend is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendState {
    /// `tract` or `onnxruntime`.
    pub name: &'static str,
    /// Its version, where it told.
    pub version: Option<String>,
    /// Its library, where it is no part of Sandmill.
    pub library: Option<PathBuf>,
    /// Why it cannot be used; none: it can.
    pub missing: Option<String>,
    /// Why it cannot use a GPU; none: it can where a worker has one.
    pub no_gpu: Option<String>,
}

impl BackendState {
    /// ONNX Runtime where its library was not found, with the reason.
    pub fn missing_onnxruntime(why: String) -> Self {
        let name = ONNXRUNTIME;
        Self { name, version: None, library: None, missing: Some(why), no_gpu: None }
    }
}

/// What the child says.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    version: Option<String>,
    problem: Option<String>,
    has_cuda: bool,
}

/// Who tries backends out.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The sandmill binary.
    pub program: PathBuf,
    /// How much of the wall must stand around what is tried.
    pub os_sandbox: OsSandbox,
    /// Folders with the libraries of CUDA.
    pub cuda: Vec<PathBuf>,
}

impl Probe {
    /// What tract is here. On the CPU it always works.
    pub fn tract(&self) -> BackendState {
        let said = self.ask(&[TRACT_GPU]);
        BackendState {
            name: "tract",
            version: Some(TRACT_VERSION.to_owned()),
            library: None,
            missing: None,
            no_gpu: said.map_or_else(Some, |said| said.problem),
        }
    }

    /// What the ONNX Runtime of a library, an absolute path, is here: a small model computed with it,
    /// behind a wall as workers have it, on two threads.
    pub fn onnxruntime(&self, library: &Path) -> BackendState {
        let path = library.to_string_lossy();
        let said = self.ask(&[ONNXRUNTIME, self.os_sandbox.name(), &path]);
        let said =
            said.unwrap_or_else(|problem| Said { problem: Some(problem), ..Said::default() });
        BackendState {
            name: "onnxruntime",
            version: said.version,
            library: Some(library.to_owned()),
            missing: said.problem,
            no_gpu: Some(
                "it was built without CUDA; the Python package onnxruntime-gpu is not".to_owned(),
            )
            .filter(|_| !said.has_cuda),
        }
    }

    /// The same, with a try at what its CUDA needs.
    pub fn onnxruntime_and_gpu(&self, library: &Path) -> BackendState {
        let mut state = self.onnxruntime(library);
        if state.missing.is_none() && state.no_gpu.is_none() {
            let said = self.ask(&[ONNXRUNTIME_GPU, &library.to_string_lossy()]);
            state.no_gpu = said.map_or_else(Some, |said| said.problem);
        }
        state
    }

    /// Has a child do a task; an error is why it did not.
    fn ask(&self, task: &[&str]) -> Result<Said, String> {
        let (variable, value) = NO_TELEMETRY;
        let mut command = Command::new(&self.program);
        command.arg(PROBE_COMMAND).args(task).env_clear().env(variable, value).current_dir("/");
        if let Ok(folders) = env::join_paths(&self.cuda)
            && !folders.is_empty()
        {
            command.env("LD_LIBRARY_PATH", folders);
        }
        wall::keep_apart(&mut command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        let (said, faults) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let begun = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if begun.elapsed() < LIMIT => thread::sleep(TICK),
                ended => {
                    // It is gone, or will be.
                    let _ = child.kill();
                    let _ = child.wait();
                    let why = ended.err().map(|error| error.to_string());
                    let late = || format!("it was not done after {} s", LIMIT.as_secs());
                    return Err(why.unwrap_or_else(late));
                }
            }
        };
        let said = said.join().unwrap_or_default();
        if let (true, Ok(said)) = (status.success(), serde_json::from_slice(&said)) {
            return Ok(said);
        }
        let faults = faults.join().unwrap_or_default();
        let faults = printable(String::from_utf8_lossy(&faults).trim());
        let ended = match status.success() {
            true => "what the process that tried it said cannot be understood".to_owned(),
            false => format!("the process that tried it {}", death(status)),
        };
        Err(if faults.is_empty() { ended } else { format!("{ended}; what it said: {faults}") })
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before an error is all there is to tell.
            let _ = pipe.take(SAID_BYTES).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// The body of `sandmill probe-backends`: tries one backend out and says on standard output, as JSON, what
/// came of it.
pub fn serve_probe(arguments: &[String]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let said = match words[..] {
        [TRACT_GPU] => {
            enter().and_then(|()| tract_cuda::check()).map_or_else(problem, |()| Said::default())
        }
        [ONNXRUNTIME, mode, library] => onnxruntime(mode, Path::new(library)),
        [ONNXRUNTIME_GPU, library] => {
            let result = enter().and_then(|()| Library::open(Path::new(library))?.try_cuda());
            result.map_or_else(problem, |()| Said::default())
        }
        _ => problem("this command is run by sandmill itself".to_owned()),
    };
    let told = serde_json::to_vec(&said).map_err(io::Error::other);
    match told.and_then(|told| io::stdout().write_all(&told)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn problem(problem: String) -> Said {
    Said { problem: Some(problem), ..Said::default() }
}

fn enter() -> Result<(), String> {
    wall::enter().map_err(|error| error.to_string())
}

fn onnxruntime(mode: &str, path: &Path) -> Said {
    let mut said = Said::default();
    let result = enter().and_then(|()| {
        let mode = OsSandbox::ALL.into_iter().find(|known| known.name() == mode);
        let mode = mode.ok_or("this command is run by sandmill itself")?;
        let library = Library::open(path)?;
        said.version = Some(library.version().to_owned());
        said.has_cuda = library.has_cuda();
        lock_down(mode)?;
        compute(&library)
    });
    said.problem = result.err();
    said
}

/// As a worker does.
fn lock_down(mode: OsSandbox) -> Result<(), String> {
    if mode != OsSandbox::Off {
        wall::alone().map_err(|error| error.to_string())?;
    }
    let bounds = Bounds {
        memory: Some(MEMORY_BYTES),
        cpu_seconds: Some(LIMIT.as_secs()),
        largest_file: 0,
        open_files: OPEN_FILES,
    };
    let wall = Wall { occupant: Occupant::Worker, mode, folders: Vec::new(), bounds };
    wall.build().map(drop).map_err(|error| error.to_string())
}

/// Computes something of which the result is known.
fn compute(library: &Library) -> Result<(), String> {
    let wanted =
        Wanted { threads: 2, gpu: None, gpu_memory: None, fell_back: false, limit: SAID_BYTES };
    let mut model =
        library.load(ModelSource::Bytes(DOUBLE), &wanted).map_err(|error| error.to_string())?;
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = TensorView { name: "x", ty: TensorType::F32, dims: &[2], bytes: &bytes };
    let outputs = model.run(&[x]).map_err(|error| error.to_string())?;
    let expected: Vec<u8> = [3f32, -4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    match &outputs[..] {
        [y] if y.bytes == expected => Ok(()),
        other => Err(format!("it computes wrongly: 1.5 and -2 doubled are {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_version_of_tract_is_that_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let entry = format!("name = \"tract-onnx\"\nversion = \"{TRACT_VERSION}\"");
        assert!(lock.contains(&entry), "TRACT_VERSION is another one than in Cargo.lock");
    }

    /// Whatever the child does, there is an answer for people.
    #[test]
    fn a_child_that_breaks_is_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let told = |body: &str| {
            fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
            let (program, os_sandbox) = (program.clone(), OsSandbox::Off);
            let probe = Probe { program, os_sandbox, cuda: Vec::new() };
            probe.onnxruntime(Path::new("/x/libonnxruntime.so")).missing.unwrap_or_default()
        };
        insta::assert_snapshot!(told("kill -SEGV $$"), @"the process that tried it was ended by signal 11");
        insta::assert_snapshot!(told("printf 'no\\033sense' >&2; echo nothing; exit 1"), @"the process that tried it ended with exit code 1; what it said: no\u{fffd}sense");
        insta::assert_snapshot!(told("echo nothing"), @"what the process that tried it said cannot be understood");
        assert_eq!(told("echo '{\"problem\": \"it is odd\", \"has_cuda\": false}'"), "it is odd");
        assert_eq!(told("echo '{\"version\": \"1\", \"has_cuda\": false}'"), "");
    }
}
