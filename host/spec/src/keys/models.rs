//! The keys below `models` and `inference`.

use super::key::{BOOL_EXPECTED, Key, Kind, MODEL_NAME_EXPECTED, key};
use crate::model::{Backend, DeviceChoice};

/// Of one model.
pub(crate) const MODEL: &[Key] = &[
    key(
        "name",
        Kind::ModelName,
        MODEL_NAME_EXPECTED,
        "digits",
        "The model's name, where models is a list. The entry script loads it by this name.",
    ),
    key(
        "path",
        Kind::Text,
        "a path to an ONNX file or to a folder with one",
        "models/digits.onnx",
        "An ONNX file, here or in a store; or a folder with model.onnx or with one ONNX file of any name; or a folder with a folder for each version, as 1 and 2, that holds such a file.",
    ),
    key(
        "model",
        Kind::Text,
        "a registered name, and perhaps a version (e.g. digits@2)",
        "digits@2",
        "A model of the registry (sandmill model register) in the place of a path: NAME@VERSION, or NAME for the latest version.",
    ),
    key(
        "version",
        Kind::Integer { min: 1, max: i64::MAX },
        "a whole number of at least 1",
        "2",
        "Which version, where path is a folder with versions. The highest unless given.",
    ),
    key(
        "digest",
        Kind::Text,
        "sha256: and 64 hexadecimal digits",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The SHA-256 that the ONNX file must have. The job does not start with another one.",
    ),
    key(
        "backend",
        Kind::Choice(|| Backend::ALL.map(Backend::name).to_vec()),
        "auto, tract or onnxruntime",
        "tract",
        "What computes. auto unless given: ONNX Runtime where its library is found, else tract, which is built in.",
    ),
    key(
        "device",
        Kind::Choice(|| DeviceChoice::ALL.map(DeviceChoice::name).to_vec()),
        "auto, cpu or gpu",
        "gpu",
        "Where it runs. auto unless given: on the worker's GPU if it has one that a backend can use, else on the CPU. With gpu, loading fails where there is none.",
    ),
    key(
        "fallback",
        Kind::Choice(|| vec!["cpu"]),
        "cpu",
        "cpu",
        "With device gpu: runs on the CPU where there is no GPU. Without it, that is an error.",
    ),
];

/// Below `inference`.
pub(crate) const INFERENCE: &[Key] = &[
    key(
        "allow_guest_models",
        Kind::Bool,
        BOOL_EXPECTED,
        "true",
        "Whether the entry script may load models of its own from bytes. false unless given.",
    ),
    THREADS,
    GPU_MEMORY,
];

/// Below `inference` of a policy.
pub(super) const CEILINGS_OF_INFERENCE: &[Key] = &[THREADS, GPU_MEMORY];

const THREADS: Key = key(
    "threads",
    Kind::Integer { min: 1, max: 64 },
    "a whole number of threads from 1 to 64",
    "2",
    "Threads of each worker that compute with a model on the CPU. Unless given, workers share the machine's cores evenly.",
);

const GPU_MEMORY: Key = key(
    "gpu_memory",
    Kind::Size,
    "a size of at least 1 MB (e.g. 4 GB)",
    "4 GB",
    "Bytes of a GPU's memory that one worker's models may take, where the backend can hold them to it. Not limited unless given.",
);
