//! The child process that tests backends; `probe` starts it.

use super::error::{BackendTrialError, short};
use super::onnxruntime::Library;
use super::vet::{self, VettedModel};
use super::{
    InferenceError, LoadSettings, ModelElementType, ModelPort, ModelSource, NnErrorCode,
    NnTensorType, TensorView, tract, tract_cuda,
};
use crate::inference::probe::{
    JUDGE_MODEL, MAX_ANSWER_BYTES, MODEL_SIZE, ModelVerdict, ONNXRUNTIME, ONNXRUNTIME_GPU,
    ProbeAnswer, TEST_TIMEOUT, TRACT_GPU, answer_with_problem,
};
use crate::model::OsSandbox;
use crate::wall::{self, FolderRights, GrantedPath, ResourceLimits, Wall, WallRole};
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;

/// The limits on memory, in bytes, and on open files.
const MEMORY_BYTES: u64 = 4 << 30;
const OPEN_FILES: u64 = 256;

/// The model `y = x + x` as an ONNX file, for f32 and any number of elements.
const DOUBLING_MODEL: &[u8] = b"\x08\x08\x12\x00:7\n\x0e\n\x01x\n\x01x\x12\x01y\"\x03Add\x12\x01gZ\x10\n\x01x\
    \x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01nb\x10\n\x01y\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01n\
    B\x04\n\x00\x10\r";

/// The body of `sandmill probe-backends`: tests one backend and writes the result to standard output, as
/// JSON.
pub fn serve_probe(arguments: &[String]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let answer = match words[..] {
        [TRACT_GPU] => {
            let result = enter().and_then(|()| Ok(tract_cuda::check()?));
            result.map_or_else(answer_with_problem, |()| ProbeAnswer::default())
        }
        [ONNXRUNTIME, mode, library] => onnxruntime(mode, Path::new(library)),
        [MODEL_SIZE, mode, folder, file] => {
            let bytes = model_bytes(mode, Path::new(folder), Path::new(file));
            bytes.map_or_else(answer_with_problem, |bytes| ProbeAnswer {
                model_bytes: Some(bytes),
                ..ProbeAnswer::default()
            })
        }
        [JUDGE_MODEL, mode, limit] => answer_of(judge_input(mode, limit)),
        [JUDGE_MODEL, mode, limit, folder, file] => {
            answer_of(judge_file(mode, limit, Path::new(folder), Path::new(file)))
        }
        [ONNXRUNTIME_GPU, library] => {
            let result = enter().and_then(|()| Ok(Library::open(Path::new(library))?.try_cuda()?));
            result.map_or_else(answer_with_problem, |()| ProbeAnswer::default())
        }
        _ => answer_with_problem(BackendTrialError::ByHand),
    };
    let json = serde_json::to_vec(&answer).map_err(io::Error::other);
    match json.and_then(|json| io::stdout().write_all(&json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn enter() -> Result<(), BackendTrialError> {
    Ok(wall::enter()?)
}

fn onnxruntime(mode: &str, path: &Path) -> ProbeAnswer {
    let mut answer = ProbeAnswer::default();
    let result = enter().and_then(|()| {
        let library = Library::open(path)?;
        answer.version = Some(library.version().to_owned());
        answer.has_cuda = library.has_cuda();
        lock_down(mode, Vec::new())?;
        compute(&library)
    });
    answer.problem = result.err().map(|error: BackendTrialError| error.to_string());
    answer
}

/// Reads a model with the same checks as a worker, and returns the model's size.
fn model_bytes(mode: &str, folder: &Path, file: &Path) -> Result<u64, BackendTrialError> {
    enter()?;
    lock_down(mode, vec![GrantedPath::new(folder, FolderRights::Read)])?;
    Ok(vet::read(ModelSource::File(file), u64::MAX)?.bytes)
}

fn answer_of(verdict: Result<ModelVerdict, BackendTrialError>) -> ProbeAnswer {
    verdict.map_or_else(answer_with_problem, |verdict| ProbeAnswer {
        judged: Some(verdict),
        ..ProbeAnswer::default()
    })
}

/// Judges a model in a folder.
fn judge_file(
    mode: &str,
    limit: &str,
    folder: &Path,
    file: &Path,
) -> Result<ModelVerdict, BackendTrialError> {
    let limit = limit.parse().map_err(|_| BackendTrialError::ByHand)?;
    enter()?;
    lock_down(mode, vec![GrantedPath::new(folder, FolderRights::Read)])?;
    Ok(judge(vet::read(ModelSource::File(file), limit)?))
}

/// Judges the model on standard input.
fn judge_input(mode: &str, limit: &str) -> Result<ModelVerdict, BackendTrialError> {
    let limit: u64 = limit.parse().map_err(|_| BackendTrialError::ByHand)?;
    enter()?;
    lock_down(mode, Vec::new())?;
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(judge(vet::read(ModelSource::Bytes(&bytes), limit)?))
}

/// Finds out whether tract can run a model, and which of its outputs are left out.
fn judge(mut vetted: VettedModel) -> ModelVerdict {
    let left_out = vetted.outputs.iter().filter_map(left_out_message).collect();
    // A model that contradicts itself is not judged. The worker that loads the model reports the error, as it
    // does for files that are not models.
    let is_unsupported = |error: &InferenceError| {
        matches!(error, InferenceError::Refused { code: NnErrorCode::UnsupportedOperation, .. })
    };
    let refused = tract::refusal(&mut vetted.proto).filter(is_unsupported);
    ModelVerdict { not_by_tract: refused.map(|error| error.to_string()), left_out }
}

/// Why an output is left out; `None` if callers receive it.
fn left_out_message(port: &ModelPort) -> Option<String> {
    let ModelElementType::Other(ty) = &port.ty else { return None };
    let name = short(&port.name);
    Some(match ty.as_str() {
        "string" => format!(
            "{name:?} is left out: it holds texts, which no tensor of wasi:nn can hold; use the position of the largest score, \
             in the order of classes_ in scikit-learn"
        ),
        "no tensor" => format!(
            "{name:?} is left out: it is a list or a map, not a tensor; export it from scikit-learn with \
             options={{'zipmap': False}}"
        ),
        ty => format!("{name:?} is left out: it is {ty}, which no tensor of wasi:nn can hold"),
    })
}

/// Builds the same wall as a worker.
fn lock_down(mode: &str, folders: Vec<GrantedPath>) -> Result<(), BackendTrialError> {
    let mode = OsSandbox::ALL.into_iter().find(|known| known.name() == mode);
    let mode = mode.ok_or(BackendTrialError::ByHand)?;
    if mode != OsSandbox::Off {
        wall::alone()?;
    }
    let bounds = ResourceLimits {
        memory: Some(MEMORY_BYTES),
        cpu_seconds: Some(TEST_TIMEOUT.as_secs()),
        largest_file: 0,
        open_files: OPEN_FILES,
    };
    let wall = Wall { role: WallRole::Worker, mode, folders, bounds };
    wall.build()?;
    Ok(())
}

/// Runs a model whose result is known.
fn compute(library: &Library) -> Result<(), BackendTrialError> {
    let threads = 2;
    let limit = MAX_ANSWER_BYTES;
    let settings = LoadSettings {
        threads,
        gpu: None,
        gpu_memory: None,
        fell_back: false,
        limit,
        loaded_bytes: 0,
    };
    let source = ModelSource::Bytes(DOUBLING_MODEL);
    let vetted = vet::read(source, limit)?;
    let mut model = library.load(source, vetted, &settings)?;
    let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = TensorView { name: "x", ty: NnTensorType::F32, dims: &[2], bytes: &bytes };
    let outputs = model.run(&[x])?;
    let expected: Vec<u8> = [3f32, -4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    match &outputs[..] {
        [y] if y.bytes == expected => Ok(()),
        other => Err(BackendTrialError::Wrong { outputs: format!("{other:?}") }),
    }
}
