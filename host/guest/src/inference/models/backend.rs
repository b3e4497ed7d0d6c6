//! The interface of a backend.

use super::{InferenceError, ModelFacts, OwnedTensor, TensorView};
use crate::model::{ByteSize, Device};
use std::path::Path;

/// Where to read a model from.
#[derive(Clone, Copy, Debug)]
pub(super) enum ModelSource<'a> {
    /// The path of an ONNX file. Its weights may be in other files of its folder.
    File(&'a Path),
    /// The content of an ONNX file.
    Bytes(&'a [u8]),
}

#[derive(Clone, Debug)]
pub(super) struct LoadSettings {
    /// The number of threads that compute on the CPU, including the caller.
    pub(super) threads: u32,
    /// The index of the GPU, for reports; `None` means the CPU. For CUDA the GPU is always device 0, because
    /// the worker sees no other.
    pub(super) gpu: Option<u32>,
    /// The limit on GPU memory, in bytes, for backends that support one.
    pub(super) gpu_memory: Option<ByteSize>,
    /// Whether the model runs on the CPU although the job requests a GPU (`fallback: cpu`).
    pub(super) fell_back: bool,
    /// The maximum size of the model's file and weights, in bytes.
    pub(super) limit: u64,
    /// The size of the models that are already loaded, in bytes.
    pub(super) loaded_bytes: u64,
}

impl LoadSettings {
    /// The device that the model is to run on.
    pub(super) fn device(&self) -> Device {
        self.gpu.map_or(Device::Cpu, Device::Gpu)
    }
}

/// A loaded model.
pub(super) trait BackendModel: Send {
    /// What is known about the model.
    fn facts(&self) -> &ModelFacts;

    /// Computes the outputs. `inputs` has been checked: it has each input of the model once, in the model's
    /// order, with the right type and a shape that fits; scalars have no dimensions. The outputs are in the
    /// model's order. Outputs whose types `wasi:nn` does not have are left out.
    ///
    /// # Errors
    /// If the backend fails.
    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, InferenceError>;
}
