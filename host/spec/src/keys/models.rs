//! The keys below `models` and `inference`.

use super::key::{BOOL_EXPECTED, DecidesRows, Key, KeyCeiling, KeyKind, MODEL_NAME_EXPECTED, key};
use crate::model::{Backend, DeviceChoice};

/// The keys of one model.
pub(crate) const MODEL: &[Key] = &[
    key(
        "name",
        KeyKind::ModelName,
        MODEL_NAME_EXPECTED,
        "digits",
        "The model's name, if models is a list. The entry script loads it by this name.",
    )
    .describe("1 to 64 of `A`-`Z`, `a`-`z`, `0`-`9`, `_`, `-` and `.`, with a letter or a digit first", "required in the list form", "The model's name, in the list form."),
    key(
        "path",
        KeyKind::Text,
        "a path to an ONNX file or to a folder with one",
        "models/digits.onnx",
        "An ONNX file, here or in a store; or a folder with model.onnx or with one ONNX file of any name; or a folder with a subfolder for each version (1, 2, ...), which contains such a file.",
    )
    .describe("path", "required", "An ONNX file, here or [in a store](stores.md); or a folder with `model.onnx`, or with one ONNX file (`.onnx`) of any name; or a folder with a subfolder for each version (`1`, `2`, ...), as in model repositories."),
    key(
        "model",
        KeyKind::Text,
        "a registered name, optionally with a version (e.g. digits@2)",
        "digits@2",
        "A model of the registry (sandmill model register) instead of a path: NAME@VERSION, or NAME for the latest version.",
    )
    .describe("`NAME@VERSION` or `NAME`", "", "A [registered model](registry.md), instead of `path`. Without a version, the latest version. The model must be unchanged since it was registered."),
    key(
        "version",
        KeyKind::Integer { min: 1, max: i64::MAX },
        "a whole number of at least 1",
        "2",
        "The version to use, if path is a folder with versions. The highest unless given.",
    )
    .describe("", "the highest", "The version to use, if `path` is a folder with versions."),
    key(
        "digest",
        KeyKind::Text,
        "sha256: and 64 hexadecimal digits",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The SHA-256 that the ONNX file must have. With another digest, the job does not start.",
    )
    .describe("`sha256:` and 64 hexadecimal digits, or the digits alone", "", "The SHA-256 that the ONNX file must have. With another digest, the job does not start. Other files in the folder are not checked."),
    key(
        "backend",
        KeyKind::Choice(|| Backend::ALL.map(Backend::name).to_vec()),
        "auto, tract or onnxruntime",
        "tract",
        "The backend that runs the model. auto unless given: ONNX Runtime if its library is found, else tract, which is built in.",
    )
    .describe("", "`auto`", "The backend that runs the model. `tract` is built in. `onnxruntime` needs the library of ONNX Runtime on this machine. `auto`: ONNX Runtime if its library is found, else tract."),
    key(
        "device",
        KeyKind::Choice(|| DeviceChoice::ALL.map(DeviceChoice::name).to_vec()),
        "auto, cpu or gpu",
        "gpu",
        "The device that runs the model. auto unless given: on the worker's GPU if it has one that a backend can use, else on the CPU. With gpu, loading fails if there is no GPU.",
    )
    .describe("", "`auto`", "The device that runs the model. `gpu`: on the worker's GPU. A worker without a GPU cannot load the model: that is an error, never a silent run on the CPU. `auto`: on the worker's GPU if it has one that a backend can use, else on the CPU."),
    key(
        "fallback",
        KeyKind::Choice(|| vec!["cpu"]),
        "cpu",
        "cpu",
        "With device gpu: the model runs on the CPU if there is no GPU. Without this key, that is an error.",
    )
    .describe("", "", "With `device: gpu`: if there is no GPU, the model runs on the CPU, and the job's result says so."),
];

/// The keys below `inference`.
pub(crate) const INFERENCE: &[Key] = &[
    key(
        "allow_guest_models",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the entry script may load its own models from bytes. false unless given.",
    )
    .or("false")
    .describe("", "", "Whether the entry script may load its own models from bytes.")
    .flagged(DecidesRows::DecideUnlessDefault, KeyCeiling::No("a policy allows it or forbids it")),
    THREADS,
    GPU_MEMORY,
];

/// The keys below `inference` in a policy.
pub(super) const INFERENCE_CEILINGS: &[Key] = &[THREADS, GPU_MEMORY];

const THREADS: Key = key(
    "threads",
    KeyKind::Integer { min: 1, max: 64 },
    "a whole number of threads from 1 to 64",
    "2",
    "The number of threads with which each worker runs a model on the CPU. Unless given, workers share the machine's cores evenly.",
)
.describe("", "the machine's cores, shared evenly by the workers", "The number of threads with which each worker runs a model on the CPU.")
.flagged(DecidesRows::Not("affects only how fast models run"), KeyCeiling::Same);

const GPU_MEMORY: Key = key(
    "gpu_memory",
    KeyKind::Size { min: 1 << 20, max: u64::MAX },
    "a size of at least 1 MB (e.g. 4 GB)",
    "4 GB",
    "The GPU memory that the models of one worker may use, if the backend can enforce the limit. Not limited unless given.",
)
.describe("", "not limited", "The GPU memory that the models of one worker may use, if the backend can enforce the limit.")
.flagged(DecidesRows::Not("affects only whether models fit"), KeyCeiling::Same);
