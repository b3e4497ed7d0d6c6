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
        "The model's name, where models is a list. The entry script loads it by this name.",
    )
    .describe("1 to 64 of `A`-`Z`, `a`-`z`, `0`-`9`, `_`, `-` and `.`, with a letter or a digit first", "required there", "The model's name, in the list form."),
    key(
        "path",
        KeyKind::Text,
        "a path to an ONNX file or to a folder with one",
        "models/digits.onnx",
        "An ONNX file, here or in a store; or a folder with model.onnx or with one ONNX file of any name; or a folder with a folder for each version, as 1 and 2, that holds such a file.",
    )
    .describe("path", "required", "An ONNX file, here or [in a store](stores.md); or a folder with `model.onnx`, or with one ONNX file (`.onnx`) of any name; or a folder that has a folder for each version (`1`, `2`, ...), each such a folder, as model repositories have it."),
    key(
        "model",
        KeyKind::Text,
        "a registered name, optionally with a version (e.g. digits@2)",
        "digits@2",
        "A model of the registry (sandmill model register) instead of a path: NAME@VERSION, or NAME for the latest version.",
    )
    .describe("`NAME@VERSION` or `NAME`", "", "A [registered model](registry.md), instead of `path`; without a version its latest one. It must be what it was when it was registered."),
    key(
        "version",
        KeyKind::Integer { min: 1, max: i64::MAX },
        "a whole number of at least 1",
        "2",
        "Which version, where path is a folder with versions. The highest unless given.",
    )
    .describe("", "the highest", "Which version, where `path` is a folder with versions."),
    key(
        "digest",
        KeyKind::Text,
        "sha256: and 64 hexadecimal digits",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The SHA-256 that the ONNX file must have. The job does not start with another one.",
    )
    .describe("`sha256:` and 64 hexadecimal digits, or the digits alone", "", "The SHA-256 that the ONNX file must have; not that of other files in its folder. With another one the job does not start."),
    key(
        "backend",
        KeyKind::Choice(|| Backend::ALL.map(Backend::name).to_vec()),
        "auto, tract or onnxruntime",
        "tract",
        "What computes. auto unless given: ONNX Runtime where its library is found, else tract, which is built in.",
    )
    .describe("", "`auto`", "What computes. `tract` is built in. `onnxruntime` needs the library of ONNX Runtime on this machine. `auto`: ONNX Runtime where its library is found, else tract."),
    key(
        "device",
        KeyKind::Choice(|| DeviceChoice::ALL.map(DeviceChoice::name).to_vec()),
        "auto, cpu or gpu",
        "gpu",
        "Where it runs. auto unless given: on the worker's GPU if it has one that a backend can use, else on the CPU. With gpu, loading fails where there is none.",
    )
    .describe("", "`auto`", "Where it runs. `gpu`: on the worker's GPU; a worker without one cannot load the model, which is an error, never a silent run on the CPU. `auto`: on the worker's GPU if it has one that a backend can use, else on the CPU."),
    key(
        "fallback",
        KeyKind::Choice(|| vec!["cpu"]),
        "cpu",
        "cpu",
        "With device gpu: runs on the CPU where there is no GPU. Without it, that is an error.",
    )
    .describe("", "", "With `device: gpu`: where there is no GPU the model runs on the CPU after all, and the job's result says so."),
];

/// The keys below `inference`.
pub(crate) const INFERENCE: &[Key] = &[
    key(
        "allow_guest_models",
        KeyKind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the entry script may load models of its own from bytes. false unless given.",
    )
    .or("false")
    .describe("", "", "Whether the entry script may load models of its own from bytes.")
    .flagged(DecidesRows::DecideUnlessDefault, KeyCeiling::No("a policy allows it, or does not")),
    THREADS,
    GPU_MEMORY,
];

/// The keys below `inference` in a policy.
pub(super) const CEILINGS_OF_INFERENCE: &[Key] = &[THREADS, GPU_MEMORY];

const THREADS: Key = key(
    "threads",
    KeyKind::Integer { min: 1, max: 64 },
    "a whole number of threads from 1 to 64",
    "2",
    "Threads of each worker that compute with a model on the CPU. Unless given, workers share the machine's cores evenly.",
)
.describe("", "the machine's cores, shared evenly by the workers", "Threads of each worker that compute with a model on the CPU.")
.flagged(DecidesRows::Not("how fast models compute"), KeyCeiling::Same);

const GPU_MEMORY: Key = key(
    "gpu_memory",
    KeyKind::Size { min: 1 << 20, max: u64::MAX },
    "a size of at least 1 MB (e.g. 4 GB)",
    "4 GB",
    "Bytes of a GPU's memory that one worker's models may take, where the backend can hold them to it. Not limited unless given.",
)
.describe("", "not limited", "Bytes of a GPU's memory that one worker's models may take, where the backend can hold them to it.")
.flagged(DecidesRows::Not("whether there is room to compute"), KeyCeiling::Same);
