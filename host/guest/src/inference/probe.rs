//! Tests backends in a child process: a faulty library then crashes the child instead of the leader.

use super::error::{NamedError, ProbeError};
use super::named_library::{NO_TELEMETRY, NamedLibrary};
use crate::features::HAS_CUDA;
use crate::model::{Feature, OsSandbox};
use crate::wall;
use serde::{Deserialize, Serialize};
use std::env;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The hidden subcommand that tests backends. It must call `serve_probe`.
pub const PROBE_COMMAND: &str = "probe-backends";

/// The hidden subcommand that compiles GPU code for tract. It must call `serve_kernels`.
pub const KERNELS_COMMAND: &str = "gpu-prepare";

/// The version of tract in this program.
pub const TRACT_VERSION: &str = "0.23.9";

pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum length of the child's output, in bytes.
pub(super) const MAX_ANSWER_BYTES: u64 = 64 << 10;

// The child's tasks, as the first word of its arguments.

/// Tests whether tract can use a GPU.
pub(super) const TRACT_GPU: &str = "tract-gpu";
/// Tests ONNX Runtime on the CPU.
pub(super) const ONNXRUNTIME: &str = "onnxruntime";
/// Tests whether ONNX Runtime can use a GPU.
pub(super) const ONNXRUNTIME_GPU: &str = "onnxruntime-gpu";
/// Measures the size of a model.
pub(super) const MODEL_SIZE: &str = "model";
/// Judges a model before workers load it.
pub(super) const JUDGE_MODEL: &str = "judge-model";

/// The state of a backend on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendState {
    /// `tract` or `onnxruntime`.
    pub name: &'static str,
    /// The version, if the backend reported one.
    pub version: Option<String>,
    /// The path of the library; `None` for tract, which is a part of Sandmill.
    pub library: Option<PathBuf>,
    /// Why the backend cannot be used; `None` if it can.
    pub missing: Option<String>,
    /// Why the backend cannot use a GPU; `None` if it can, in a worker that has a GPU.
    pub no_gpu: Option<String>,
}

impl BackendState {
    /// The state of ONNX Runtime if its library was not found, with the reason.
    pub fn missing_onnxruntime(why: String) -> Self {
        let name = ONNXRUNTIME;
        Self { name, version: None, library: None, missing: Some(why), no_gpu: None }
    }
}

/// The child's answer to any task.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ProbeAnswer {
    pub(super) version: Option<String>,
    pub(super) problem: Option<String>,
    pub(super) has_cuda: bool,
    pub(super) model_bytes: Option<u64>,
    pub(super) judged: Option<ModelVerdict>,
}

/// What is known about a model before a worker loads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelVerdict {
    /// Why tract cannot run the model, as a message; `None` if it can.
    pub not_by_tract: Option<String>,
    /// One message for each output that callers do not receive, with the reason.
    pub left_out: Vec<String>,
}

pub(super) fn answer_with_problem(error: impl Error) -> ProbeAnswer {
    ProbeAnswer { problem: Some(error.to_string()), ..ProbeAnswer::default() }
}

/// Starts the child processes that test backends.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The sandmill binary.
    pub program: PathBuf,
    /// How strict the wall around the child is.
    pub os_sandbox: OsSandbox,
    /// The folders with the CUDA libraries.
    pub cuda: Vec<PathBuf>,
}

impl Probe {
    /// The state of tract on this machine. On the CPU, tract always works.
    pub fn tract(&self) -> BackendState {
        let answer = self.ask(&[TRACT_GPU]);
        BackendState {
            name: "tract",
            version: Some(TRACT_VERSION.to_owned()),
            library: None,
            missing: None,
            no_gpu: answer.map_or_else(|error| Some(error.to_string()), |answer| answer.problem),
        }
    }

    /// The state of the ONNX Runtime at `library`, an absolute path, on this machine. The child runs
    /// a small model, on two threads, behind the same wall as a worker.
    pub fn onnxruntime(&self, library: &Path) -> BackendState {
        let path = library.to_string_lossy();
        let answer = self.ask(&[ONNXRUNTIME, self.os_sandbox.name(), &path]);
        let answer = answer.unwrap_or_else(answer_with_problem);
        BackendState {
            name: "onnxruntime",
            version: answer.version,
            library: Some(library.to_owned()),
            missing: answer.problem,
            no_gpu: if answer.has_cuda {
                None
            } else if HAS_CUDA {
                let why = "it was built without CUDA; the Python package onnxruntime-gpu has CUDA";
                Some(why.to_owned())
            } else {
                Some(Feature::Cuda.absence().to_string())
            },
        }
    }

    /// Does the same as [`Probe::onnxruntime`], and also tests whether the library's CUDA dependencies are
    /// installed.
    pub fn onnxruntime_and_gpu(&self, library: &Path) -> BackendState {
        let mut state = self.onnxruntime(library);
        if state.missing.is_none() && state.no_gpu.is_none() {
            state.no_gpu = self.onnxruntime_on_gpu(library).err().map(|error| error.to_string());
        }
        state
    }

    /// Checks that the CUDA dependencies of an ONNX Runtime library are installed.
    ///
    /// # Errors
    /// If a dependency is missing.
    pub fn onnxruntime_on_gpu(&self, library: &Path) -> Result<(), ProbeError> {
        let answer = self.ask(&[ONNXRUNTIME_GPU, &library.to_string_lossy()])?;
        answer.problem.map_or(Ok(()), |problem| Err(ProbeError::Problem(problem)))
    }

    /// Tests the library that the user named. Returns its path and version.
    ///
    /// # Errors
    /// If the library cannot be used. The error says which option or variable named it.
    pub fn named(&self, named: &NamedLibrary) -> Result<(PathBuf, Option<String>), NamedError> {
        let library = named.find()?;
        let BackendState { version, missing, .. } = self.onnxruntime(&library);
        match missing {
            None => Ok((library, version)),
            Some(why) => Err(NamedError::Unusable { by: named.by, library, why }),
        }
    }

    /// The size in bytes of an ONNX file and its weights. The weights may be in other files of the
    /// folder. Both paths are absolute.
    ///
    /// # Errors
    /// If the size is unknown.
    pub fn model_bytes(&self, folder: &Path, file: &Path) -> Result<u64, ProbeError> {
        let paths = [folder, file].map(Path::to_string_lossy);
        let answer = self.ask(&[MODEL_SIZE, self.os_sandbox.name(), &paths[0], &paths[1]])?;
        answer.model_bytes.ok_or_else(|| ProbeError::Problem(answer.problem.unwrap_or_default()))
    }

    /// Judges a model of at most `limit` bytes. Without a folder the model is one file that contains all its
    /// weights. Paths are absolute.
    ///
    /// # Errors
    /// If the file is not a model, or cannot be read.
    pub fn judge(
        &self,
        folder: Option<&Path>,
        file: &Path,
        limit: u64,
    ) -> Result<ModelVerdict, ProbeError> {
        let limit = limit.to_string();
        let as_texts = |folder: &Path, file: &Path| {
            [folder, file].map(|path| path.to_string_lossy().into_owned())
        };
        let mode = self.os_sandbox.name();
        let answer = match folder {
            Some(folder) => {
                let [folder, file] = as_texts(folder, file);
                self.ask(&[JUDGE_MODEL, mode, &limit, &folder, &file])?
            }
            None => {
                let start_error = |source| ProbeError::Start { program: file.to_owned(), source };
                // The child gets the open file, and no access to other files in its folder.
                let opened = File::open(file).map_err(start_error)?;
                self.ask_with_input(&[JUDGE_MODEL, mode, &limit], opened.into())?
            }
        };
        answer.judged.ok_or_else(|| ProbeError::Problem(answer.problem.unwrap_or_default()))
    }

    /// Runs a task in a child.
    fn ask(&self, task: &[&str]) -> Result<ProbeAnswer, ProbeError> {
        self.ask_with_input(task, Stdio::null())
    }

    /// Runs a task in a child whose standard input is `input`.
    fn ask_with_input(&self, task: &[&str], input: Stdio) -> Result<ProbeAnswer, ProbeError> {
        let (variable, value) = NO_TELEMETRY;
        let mut command = Command::new(&self.program);
        command.arg(PROBE_COMMAND).args(task).env_clear().env(variable, value).current_dir("/");
        if let Ok(folders) = env::join_paths(&self.cuda)
            && !folders.is_empty()
        {
            command.env("LD_LIBRARY_PATH", folders);
        }
        wall::keep_apart(&mut command);
        let child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ProbeError::Start { program: self.program.clone(), source })?;
        let ended = wall::end_of(child, TEST_TIMEOUT, MAX_ANSWER_BYTES, || None)
            .map_err(ProbeError::NoEnd)?;
        match serde_json::from_slice(&ended.said) {
            Ok(answer) if ended.status.success() => Ok(answer),
            Err(_) if ended.status.success() => Err(ProbeError::Unclear),
            _ => Err(ProbeError::Failed(ended.describe("the process that tested it"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_version_of_tract_matches_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        let entry = format!("name = \"tract-onnx\"\nversion = \"{TRACT_VERSION}\"");
        assert!(lock.contains(&entry), "TRACT_VERSION differs from Cargo.lock");
    }

    /// Whatever the child does, the user gets an answer.
    #[test]
    fn a_failed_child_becomes_an_error_message() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let describe = |body: &str| {
            fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
            let program = program.clone();
            let os_sandbox = OsSandbox::Off;
            let probe = Probe { program, os_sandbox, cuda: Vec::new() };
            probe.onnxruntime(Path::new("/x/libonnxruntime.so")).missing.unwrap_or_default()
        };
        insta::assert_snapshot!(describe("kill -SEGV $$"), @"the process that tested it was ended by signal 11");
        insta::assert_snapshot!(describe("printf 'no\\033sense' >&2; echo nothing; exit 1"), @r"the process that tested it ended with exit code 1; its output: no\u{1b}sense");
        insta::assert_snapshot!(describe("echo nothing"), @"the output of the process that tested it is not valid");
        assert_eq!(
            describe("echo '{\"problem\": \"it is odd\", \"has_cuda\": false}'"),
            "it is odd"
        );
        assert_eq!(describe("echo '{\"version\": \"1\", \"has_cuda\": false}'"), "");
    }
}
