//! Tests of models through the registry, as a worker uses it.

mod choosing;
mod hostile;
mod learned;
mod running;

use super::samples::bytes;
use super::{InferenceError, LoadedModel, LoadedModels, NnTensorType, OwnedTensor, TensorView};
use crate::model::{Backend, DeviceChoice, InferenceSettings, JobModel, Limits};
use std::fs;
use tempfile::TempDir;
use tract_onnx::pb::ModelProto;

/// A registry that accepts models from bytes, on the CPU.
fn any_models() -> LoadedModels {
    let settings = InferenceSettings { allow_guest_models: true, ..InferenceSettings::default() };
    LoadedModels::open(Vec::new(), &settings, None, 1, &Limits::default())
}

/// Loads a model from bytes.
fn load(model: &ModelProto) -> Result<LoadedModel, InferenceError> {
    any_models().load_bytes(&bytes(model), false)
}

/// A job's model `m` with this content, in its own folder.
fn named(file: &[u8]) -> (TempDir, JobModel) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("model.onnx"), file).expect("a file in it");
    let model = JobModel {
        name: "m".to_owned(),
        host: folder.path().to_owned(),
        file: "model.onnx".to_owned(),
        ..JobModel::sample()
    };
    (folder, model)
}

/// The error's kind and text.
fn describe<T>(result: Result<T, InferenceError>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(InferenceError::Refused { code, message }) => format!("{code:?}: {message}"),
        Err(InferenceError::Ends { kind, message }) => format!("ends, {kind}: {message}"),
    }
}

/// The bytes of numbers of any type.
macro_rules! raw {
    ($values:expr) => {
        $values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()
    };
}
use raw;

fn view<'a>(name: &'a str, ty: NnTensorType, dims: &'a [u32], bytes: &'a [u8]) -> TensorView<'a> {
    TensorView { name, ty, dims, bytes }
}

/// Runs a model with one `f32` input `x`.
fn run_x(model: &LoadedModel, dims: &[u32], x: &[f32]) -> Result<Vec<OwnedTensor>, InferenceError> {
    model.run(&[view("x", NnTensorType::F32, dims, &raw!(x))])
}

fn f32s(tensor: &OwnedTensor) -> Vec<f32> {
    assert_eq!(tensor.ty, NnTensorType::F32, "{}", tensor.name);
    let (numbers, rest) = tensor.bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

fn i64s(tensor: &OwnedTensor) -> Vec<i64> {
    assert_eq!(tensor.ty, NnTensorType::I64, "{}", tensor.name);
    let (numbers, rest) = tensor.bytes.as_chunks::<8>();
    assert!(rest.is_empty());
    numbers.iter().map(|number| i64::from_le_bytes(*number)).collect()
}
